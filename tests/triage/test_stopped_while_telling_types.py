"""Somebody says stop once the model has nothing left to do: what was left out then makes the run a partial one all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gate import explaining
from gate.campaign.deadline import Interrupted


@pytest.mark.parametrize("stopped", [True, False])
def test_a_stop_while_types_are_told_ends_the_run_as_interrupted(monkeypatch: pytest.MonkeyPatch, stopped: bool) -> None:
    def check() -> None:
        raise Interrupted("The run was interrupted.")

    for stage in ("compare_paths", "ask_baseline", "_gather_features", "_attribute"):
        monkeypatch.setattr(explaining, stage, lambda *_: None)
    deadline = SimpleNamespace(stopped=False, check=check)

    def told(*_: Any) -> None:
        deadline.stopped = stopped

    monkeypatch.setattr(explaining, "_tell_types", told)
    triage = SimpleNamespace(model_copy=lambda update: update)
    work: Any = SimpleNamespace(allowance=SimpleNamespace(spent=7), triage=triage, deadline=deadline)
    nothing: Any = None
    if stopped:
        with pytest.raises(Interrupted):
            explaining.explain(work, nothing, nothing, nothing)
    else:
        explaining.explain(work, nothing, nothing, nothing)
        assert work.triage == {"spent": 7}
