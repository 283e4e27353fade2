"""What a judging arm of fog alone leaves behind, for tests of what is made of many runs."""

from __future__ import annotations

from gate.metrics.evidence import JudgedSeed


def foggy_rows(seeds: int, failing: int) -> tuple[JudgedSeed, ...]:
    """Two classes by turns, eight mutants each; the first mutant of the first ``failing`` seed inputs is read as the other class."""
    return tuple(
        JudgedSeed(
            seed_id=f"s{i}",
            label=i % 2,
            operators=("fog",) * 8,
            families=("weather",) * 8,
            severities=(0.5,) * 8,
            valid=(True,) * 8,
            failed=(i < failing,) + (False,) * 7,
            predicted=((i + 1) % 2 if i < failing else i % 2,) + (i % 2,) * 7,
            confidence=(0.9,) * 8,
        )
        for i in range(seeds)
    )
