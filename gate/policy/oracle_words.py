"""The policy's section ``oracles`` in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from gate.oracles import ALL, Switches

__all__ = ["oracles_in_words"]


def oracles_in_words(switches: Switches) -> Iterator[str]:
    """One sentence for each oracle that is on, the one that names a defect before others first; then those that are off."""
    off = []
    for oracle in ALL:
        switch = getattr(switches, oracle.name, None)
        name = oracle.name.replace("_", " ")
        if switch is not None and not switch.on:
            off.append(name)
            continue
        limits = {} if switch is None else switch.model_dump(exclude={"on"})
        said = f" ({', '.join(f'{key} {value:g}' for key, value in limits.items())})" if limits else ""
        yield f"{name}{said}: an input {oracle.says}."
    if off:
        yield f"Off: {', '.join(off)}."
