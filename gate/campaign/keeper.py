"""Several processes that run the model: one keeps the coverage maps, the others run batches for it.

A helper sends back what the model answered and what the watched neurons did; the keeper counts that in the order in which the batches were
asked for. So every map goes through the same states as with one process, and the campaign is the same to the last byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate.campaign.deadline import Deadline
from gate.campaign.described import joined
from gate.campaign.supervisor import Refused, Request, Worker
from gate.campaign.wire import Arrays
from gate.errors import ConfigError, GateError, WorkerError

__all__ = ["Keeper"]

_EVERYWHERE = frozenset({"load", "watch", "plant", "unplant"})  # a helper runs the model and watches the same layers
_ANY_TIME = frozenset({"forward", "features", "describe", "numeric_path"})  # neither reads a map nor changes one


@dataclass(eq=False)
class _Relayed(Request):
    """A batch that a helper runs."""

    helper: Worker | None = None
    recorded: Request | None = None  # of the helper
    counted: Request | None = None  # of the keeper, once it has been given what the helper recorded


class Keeper(Worker):
    """A worker with helpers. Lives in the supervisor; it is asked like one worker, and a death of any ends them all.

    Args:
        private: a folder that belongs to them; each has a folder of its own below it.
        helpers: how many other processes run batches, at least one.
        deadline: see ``Worker``.

    Raises:
        WorkerError, BudgetSpent, Interrupted: as ``Worker`` does.
    """

    def __init__(self, private: Path, *, helpers: int, deadline: Deadline | None = None) -> None:
        self._helpers: list[Worker] = []
        self._relayed: deque[_Relayed] = deque()  # not yet handed over, oldest first
        self._turn = 0
        self._key_known = False
        try:
            for number in range(1, helpers + 1):
                self._helpers.append(Worker(private / f"helper-{number}", deadline=deadline, wait=False))
            super().__init__(private / "keeper", deadline=deadline)
        except BaseException:
            self._kill_helpers()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, the keeper's first."""
        return (self.pid, *(helper.pid for helper in self._helpers))

    def call(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        arrays: Arrays | None = None,
        *,
        timeout: float | None = None,
    ) -> tuple[dict[str, Any], Arrays]:
        """One request and its answer; see ``Worker.call``.

        Raises:
            ConfigError: also where the helpers' devices are of another kind than the keeper's.
        """
        everywhere = operation in _EVERYWHERE or (operation == "forward" and not self._key_known)
        self._key_known = self._key_known or operation == "forward"  # which output is the answer, a model shows with its first batch
        asked = dict(parameters or {})
        others = []
        if everywhere:
            for turn, helper in enumerate(self._helpers, start=1):
                own = {**asked, "turn": turn} if operation == "load" else asked
                others.append(helper.ask(operation, own, arrays, timeout=timeout))
        answer = super().call(operation, asked, arrays, timeout=timeout)
        said = [helper.answer(request) for helper, request in zip(self._helpers, others, strict=False)]
        if operation == "load":
            self._key_known = False
            for fields, _ in said:
                _same_kind(answer[0]["fingerprint"], fields["fingerprint"])
        elif operation == "watch" and any(fields["layers"] != answer[0]["layers"] for fields, _ in said):
            raise WorkerError("The workers watch different layers of one model.", where="worker process", hint="Run it with workers: 1.")
        elif operation == "describe":
            for helper in self._helpers:
                answer[0].update(joined(answer[0], helper.call("describe")[0]))
        return answer

    def ask(
        self,
        operation: str,
        parameters: Mapping[str, Any] | None = None,
        arrays: Arrays | None = None,
        *,
        timeout: float | None = None,
    ) -> Request:
        """Sends a request; ``run`` goes to the helpers in turn. See ``Worker.ask``."""
        asked, given = dict(parameters or {}), dict(arrays or {})
        if operation != "run":
            if operation not in _ANY_TIME:
                self._hand_over(None)
            return super().ask(operation, asked, given, timeout=timeout)
        helper = self._helpers[self._turn % len(self._helpers)]
        self._turn += 1
        if asked["arm"] is None:
            recorded = helper.ask("run", asked, given, timeout=timeout)
        else:
            recorded = helper.ask("record", {}, {"x": given["x"]}, timeout=timeout)
        relayed = _Relayed("run", asked, {"earns": given["earns"]}, recorded.patience, helper=helper, recorded=recorded)
        self._relayed.append(relayed)
        return relayed

    def answer(self, request: Request) -> tuple[dict[str, Any], Arrays]:
        """The answer to a request; see ``Worker.answer``."""
        if not isinstance(request, _Relayed):
            return super().answer(request)
        if request.counted is None and request.answered is None and request.error is None:
            self._hand_over(request)
        if request.error is not None:
            raise request.error
        if request.counted is not None and request.answered is None:
            fields, arrays = super().answer(request.counted)
            request.answered = fields, arrays
        assert request.answered is not None
        return request.answered

    def kill(self) -> None:
        """Ends all of them at once."""
        self._kill_helpers()
        super().kill()

    def close(self) -> None:
        """Ends all of them."""
        for helper in self._helpers:
            helper.close()
        super().close()

    def _kill_helpers(self) -> None:
        for helper in self._helpers:
            helper.kill()

    def _hand_over(self, last: _Relayed | None) -> None:
        """Gives the keeper what helpers recorded, in the order in which it was asked for, up to ``last`` (None: all)."""
        while self._relayed:
            relayed = self._relayed.popleft()
            assert relayed.helper is not None
            assert relayed.recorded is not None
            try:
                fields, arrays = relayed.helper.answer(relayed.recorded)
            except GateError as error:
                relayed.error = error
                self.given_up = self.given_up or relayed.helper.given_up
                if isinstance(error, Refused) and relayed.parameters["arm"] == "search" and not relayed.parameters.get("part"):
                    try:
                        super().ask("missed")
                    except GateError as later:
                        relayed.error = later
            else:
                if relayed.parameters["arm"] is None:
                    relayed.answered = fields, arrays
                else:
                    try:
                        relayed.counted = super().ask("count", relayed.parameters, {**relayed.arrays, **arrays})
                    except GateError as error:
                        relayed.error = error
            relayed.arrays = {}
            if relayed is last:
                return


def _same_kind(keeper: Mapping[str, Any], helper: Mapping[str, Any]) -> None:
    if keeper != helper:
        differing = next(name for name in keeper if keeper[name] != helper.get(name))
        raise ConfigError(
            f"The workers differ in {differing} ({keeper[differing]} and {helper.get(differing)}), so their answers may, too.",
            where="workers",
            hint="Use one kind of device (CUDA_VISIBLE_DEVICES), or workers: 1.",
        )
