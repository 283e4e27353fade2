"""The same seed and the same executions give the same result, but for times, paths and what derives from time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gate_command import Done, Finished, run_gate

# Everything that may differ between the two, and why.
EXCEPTED = {
    "campaign.wall_seconds",  # a time
    "campaign.started_at",  # a time
    "campaign.device_hours",  # a time
    "metrics.defect_density.value",  # defects per hour
    "metrics.defect_density.lower",
    "metrics.defect_density.upper",
    "metrics.defect_density.extra.device_hours",
}
TIMED_EVIDENCE = "search_device_seconds"


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for position, item in enumerate(value):
            yield from _leaves(item, f"{path}.{position}")
    else:
        yield path, value


def test_twice_the_same_campaign_is_the_same_to_the_byte(
    gate_run: Callable[..., Done], model: Path, seeds: Path, long_tail: Path, finished: Finished, tmp_path: Path
) -> None:
    options: list[str | Path] = ["--seed", "11", "--executions", "300", "--long-tail", long_tail]
    one, other = Finished(tmp_path / "out"), Finished(tmp_path / "other place")
    assert gate_run(*options).code == 0
    # In another process and another folder, with other hash seeds and another time zone.
    base: list[str | Path] = ["run", "--model", model, "--seeds", seeds, "--policy", "smoke"]
    done = run_gate(*base, *options, "--out", other.folder, cwd=tmp_path, env={"PYTHONHASHSEED": "77", "TZ": "Asia/Kathmandu"})
    assert done.code == 0, done.said
    left, right = dict(_leaves(one.record)), dict(_leaves(other.record))
    assert len(left) > 500
    assert {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)} <= EXCEPTED
    assert one.record["defects"]
    for name in ("corpus.bin", "coverage.map", "seeds.map", "reading.json", "identity.json"):
        assert (one.folder / "campaign" / name).read_bytes() == (other.folder / "campaign" / name).read_bytes(), name
    evidence = [json.loads((run.folder / "campaign/evidence.json").read_text()) for run in (one, other)]
    assert all(part.pop(TIMED_EVIDENCE) > 0 for part in evidence)
    assert evidence[0] == evidence[1]
    pictures = [sorted(path.relative_to(run.folder) for path in (run.folder / "defects").rglob("*.*")) for run in (one, other)]
    assert pictures[0] == pictures[1]
    assert all((one.folder / path).read_bytes() == (other.folder / path).read_bytes() for path in pictures[0])
    # And another seed is another campaign.
    again = Finished(tmp_path / "another seed")
    assert gate_run("--seed", "8", *options[2:], "--out", again.folder).code == 0
    assert (again.folder / "campaign/corpus.bin").read_bytes() != (one.folder / "campaign/corpus.bin").read_bytes()
