"""The stages of a run that compare numeric paths and ask the baseline: what they may spend, what they take, and what they leave out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, NumpyWorker, reads_stripes, scene

from gate import backends, baseline
from gate.backends import EXAMPLES, MUTANTS, PART, SEEDS, compare_paths
from gate.campaign.budget import BudgetSpent
from gate.campaign.events import EventLog
from gate.campaign.supervisor import Refused
from gate.config import Settings
from gate.errors import RegistryError
from gate.models.outputs import OutputKind
from gate.oracles import Switches
from gate.result import Defect, ProbeOracle, ProbesSummary
from gate.triage.allowance import Allowance
from gate.triage.baseline import answered, brought_in
from gate.triage.root_causes import root_causes

PREFLIGHT: Any = SimpleNamespace(output_kind=OutputKind.LOGITS, deterministic=True, depends_on_batch=False)


def fails_in_dusk(x: np.ndarray) -> np.ndarray:
    """Reads every picture that is a little darker than the clean ones as the next class."""
    raw = reads_stripes(x)
    return np.where(x.reshape(len(x), -1).mean(axis=1)[:, None] < 0.27 * 255, np.roll(raw, 1, axis=1), raw)


class Quantised(NumpyWorker):
    """With eight bits everything is read as the next class."""

    def call(self, operation: str, parameters: Any = None, arrays: Any = None, *, timeout: float | None = None) -> Any:
        if operation != "numeric_path":
            return super().call(operation, parameters, arrays, timeout=timeout)
        self.calls.append((operation, dict(parameters), dict(arrays)))
        raw = reads_stripes(arrays["x"])
        return {"supported": True}, {"raw": np.roll(raw, 1, axis=1) if parameters["path"] == "int8" else raw}


def work_of(
    tmp_path: Path, *, calls: int = 10_000, wall: float | None = None, oracles: Switches | None = None, model: Any = reads_stripes
) -> Any:
    """After a campaign on the known model."""
    run = scene(model=model, executions=400)
    run.run()
    return SimpleNamespace(
        seeds=run.seeds,
        judging=run.judging,
        campaign=run.campaign,
        domain=run.domain,
        settings=Settings.model_validate({"seed": 0, "batch_size": 64}),
        policy=SimpleNamespace(policy=SimpleNamespace(oracles=oracles or Switches())),
        budget=SimpleNamespace(seconds=0.0, settings=SimpleNamespace(wall=wall), worker_left=lambda: wall),
        deadline=SimpleNamespace(begin=lambda _: None),
        events=EventLog(None),
        allowance=Allowance(calls),
        confirmer=SimpleNamespace(defects=[], found_by={}),
        folder=SimpleNamespace(path=tmp_path),
        classes=CLASSES,
        paths=None,
        probes=None,
        baseline_reference=None,
        against_baseline=None,
    )


def compared(work: Any, worker: Any, preflight: Any = PREFLIGHT) -> Any:
    compare_paths(work, worker, work.domain, preflight)
    return work.paths


@pytest.mark.parametrize(("calls", "beside", "paths"), [(600, 8, 4), (1000, 19, 7), (30_000, 160, SEEDS + MUTANTS)])
def test_a_part_of_the_allowance_is_spent_at_most_on_seeds_and_mutants_alike(tmp_path: Path, calls: int, beside: int, paths: int) -> None:
    work = work_of(tmp_path, calls=calls)
    said = compared(work, Quantised(reads_stripes))
    assert 0 < work.allowance.spent == said.model_calls <= PART * calls
    assert said.seeds + said.mutants == said.ways["batch_dependence"].tried == beside
    assert said.ways["numeric_path:int8"].tried == said.disagreeing == paths
    assert said.seeds == min(40, (beside + 1) // 2)
    assert work.campaign.outcome.counts["paths"].executions == 0


def test_defects_are_examples_of_each_root_cause_the_mutants_rebuilt_from_the_judging_arm(tmp_path: Path) -> None:
    work = work_of(tmp_path, calls=30_000)
    compared(work, Quantised(reads_stripes))
    defects = work.confirmer.defects
    causes = [defect.root_cause for defect in defects]
    assert {causes.count(cause) for cause in causes} == {EXAMPLES}
    assert len(set(causes)) == len(CLASSES)
    assert all(work.confirmer.found_by[defect.id] == {"paths"} for defect in defects)
    mutants = [defect for defect in defects if defect.recipe]
    for defect in mutants:
        seed = work.seeds.ids.index(defect.seed_id)
        remade = [
            work.judging.made(seed, slot) for row in work.judging.rows if row.seed == seed for slot in range(work.judging.mutants_per_seed)
        ]
        mutant = work.domain.load(tmp_path / defect.files["mutant_data"])
        assert any(np.array_equal(mutant, x) and step.to_json() == defect.recipe[0] for x, step in remade)


def test_every_mutant_that_is_compared_was_valid_and_read_rightly(tmp_path: Path) -> None:
    work = work_of(tmp_path, model=fails_in_dusk)
    mutants = [one for one in backends._inputs(work, 2000) if one.recipe]
    rows = work.judging.rows
    assert len(mutants) == sum(valid and not failed for row in rows for valid, failed in zip(row.valid, row.failed, strict=True))
    assert len(mutants) < sum(valid for row in rows for valid in row.valid), "there are others to tell them from"
    x, originals = (np.stack([getattr(one, name) for one in mutants]) for name in ("x", "original"))
    assert work.domain.valid(x, originals, [one.recipe for one in mutants]).all()
    assert (fails_in_dusk(x).argmax(1) == [one.label for one in mutants]).all()


@pytest.mark.parametrize(
    ("more", "deterministic", "words"),
    [
        ({}, False, "not deterministic"),
        ({"calls": 100}, True, "fewer than 4 inputs"),
        ({"oracles": Switches.model_validate({"numeric_path": False, "batch_dependence": False})}, True, "switches both oracles off"),
    ],
)
def test_where_nothing_is_compared_the_record_says_why(tmp_path: Path, more: dict[str, Any], deterministic: bool, words: str) -> None:
    work, own = work_of(tmp_path, **more), Quantised(reads_stripes)
    said = compared(work, own, SimpleNamespace(**{**vars(PREFLIGHT), "deterministic": deterministic}))
    assert words in said.reason
    assert own.calls == []
    assert work.allowance.spent == 0


@pytest.mark.parametrize(("switch", "left"), [("numeric_path", {"batch_dependence"}), ("batch_dependence", None)])
def test_one_oracle_may_be_off(tmp_path: Path, switch: str, left: set[str] | None) -> None:
    said = compared(work_of(tmp_path, oracles=Switches.model_validate({switch: False})), Quantised(reads_stripes))
    assert set(said.ways) == left if left else "batch_dependence" not in said.ways
    assert not left or said.untaken == {}


def needs_company(x: np.ndarray) -> np.ndarray:
    raw = reads_stripes(x)
    return np.where(np.arange(len(x))[:, None] % 2 == 0, np.roll(raw, 1, axis=1), raw) if len(x) > 1 else raw


def test_where_preflight_saw_that_answers_depend_on_the_batch_the_budget_goes_into_that(tmp_path: Path) -> None:
    work = work_of(tmp_path, calls=1000)
    said = compared(work, Quantised(needs_company), SimpleNamespace(**{**vars(PREFLIGHT), "depends_on_batch": True}))
    assert said.ways["batch_dependence"].tried == (int(PART * 1000 * 2 / 3) - 24) // 2
    assert set(said.ways) == {"batch_dependence"}
    assert "how answers depend on the batch" in said.untaken["int8"]
    assert {defect.oracle for defect in work.confirmer.defects} == {"batch_dependence"}
    assert work.allowance.spent <= PART * 1000


def test_undecided_seed_inputs_and_their_mutants_come_first_where_that_is_asked(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    leads = {identity: np.diff(np.sort(row)[-2:])[0] for identity, row in zip(work.seeds.ids, work.seeds.probabilities, strict=True)}
    first = backends._inputs(work, 20, undecided_first=True)
    for some in ([one for one in first if not one.recipe], [one for one in first if one.recipe]):
        assert len(some) == 10
        found = [leads[one.seed_id] for one in some]
        assert found == sorted(found)
    assert [leads[one.seed_id] for one in first if not one.recipe] == sorted(leads.values())[:10]


def test_the_class_of_a_defect_in_company_is_the_one_beside_its_own_negative(tmp_path: Path) -> None:
    def by_company(x: np.ndarray) -> np.ndarray:
        return np.roll(reads_stripes(x), min(len(x), 3) - 1, axis=1)

    work = work_of(tmp_path)
    compared(work, Quantised(by_company))
    found = [defect for defect in work.confirmer.defects if defect.oracle == "batch_dependence"]
    assert found
    assert all(defect.predicted == (defect.label + 1) % len(CLASSES) for defect in found), "in larger company it is another one"


@pytest.mark.parametrize(("calls", "wall", "compiles"), [(10_000, None, False), (300_000, None, True), (300_000, 600.0, False)])
def test_the_model_is_compiled_only_where_its_share_pays_for_that(tmp_path: Path, calls: int, wall: float | None, compiles: bool) -> None:
    work, own = work_of(tmp_path, calls=calls, wall=wall), Quantised(reads_stripes)
    said = compared(work, own)
    assert any(asked.get("path") == "compiled" for _, asked, _ in own.calls) == compiles
    assert ("numeric_path:compiled" in said.ways) == compiles
    assert ("compiled" in said.untaken) == (not compiles)


def defect(**more: Any) -> Defect:
    values: dict[str, Any] = {
        **dict.fromkeys(("confidence_before", "confidence_after"), 0.9),
        **{"id": "d-000000000000", "arm": "search", "seed_id": "s", "label": 0, "predicted": 1, "oracle": "changed_prediction"},
        **{"operator": "fog", "family": "weather", "families": ("weather",), "natural": True, "severity": 0.5, "recipe": ()},
    }
    return Defect.model_validate({**values, "root_cause": "rc-000000000000", **more})


def asked_of(model: Any, *defects: Defect, x: np.ndarray) -> list[Defect]:
    worker: Any = NumpyWorker(model)
    return answered(worker, defects, x, OutputKind.LOGITS, 2, (0.0, 255.0))


def test_what_the_baseline_reads_rightly_is_brought_in_and_what_it_reads_as_the_same_class_is_not() -> None:
    x = np.zeros((4, 8, 8, 1), dtype=np.uint8)
    scores = np.array([[5, 0, 0, 0], [0, 5, 0, 0], [1e-6, 0, 0, 0], [np.nan, 0, 0, 0]], dtype=np.float32)
    asked = iter((scores[:2], scores[2:]))
    found = asked_of(lambda _: next(asked), *[defect() for _ in range(4)], x=x)
    assert [one.baseline for one in found] == [0, 1, 0, None]
    assert [brought_in(one) for one in found] == [True, False, False, False], "a lead that is no lead says nothing"


def test_a_prediction_that_the_candidate_keeps_is_not_brought_in() -> None:
    x = np.zeros((1, 8, 8, 1), dtype=np.uint8)
    collapsed = defect(oracle="confidence_collapse", predicted=0)
    (found,) = asked_of(lambda _: np.array([[5, 0, 0, 0]], dtype=np.float32), collapsed, x=x)
    assert (found.baseline, brought_in(found)) == (0, False)


def raises_on_white(x: np.ndarray) -> np.ndarray:
    if (x == 255).any():
        raise Refused("ValueError: too bright", where="the model")
    return np.tile(np.array([50, 0, 0, 0], dtype=np.float32), (len(x), 1))


def test_a_baseline_that_raises_on_one_file_answers_the_others(tmp_path: Path) -> None:
    x = np.zeros((4, 8, 8, 1), dtype=np.uint8)
    x[1] = 255
    spent: list[int] = []
    worker: Any = NumpyWorker(raises_on_white)
    defects = [defect(), defect(oracle="crash", predicted=None), defect(), defect(oracle="crash", predicted=None)]
    found = answered(worker, defects, x, OutputKind.LOGITS, 4, (0.0, 255.0), book=spent.append)
    assert [one.baseline for one in found] == [0, None, 0, 0]
    assert [brought_in(one) for one in found] == [True, False, True, True]
    assert sum(spent) == 4 + 2, "four, then the half with the bright one, were run in vain"


@pytest.mark.parametrize(
    ("said", "scores", "known"),
    [
        ({}, [5, 0, 0, 0], False),
        ({}, [0, 5, 0, 0], True),
        ({}, [0, 0, 5, 0], True),  # another wrong class
        ({}, [np.nan, 0, 0, 0], True),
        ({"oracle": "non_finite", "predicted": None}, [np.nan, 0, 0, 0], True),
        ({"oracle": "non_finite", "predicted": None}, [0, 5, 0, 0], False),  # wrong, but an answer
        ({"oracle": "crash", "predicted": None}, [np.nan, 0, 0, 0], False),  # an answer, such as it is
        ({"oracle": "confidence_collapse", "predicted": 0}, [5, 0, 0, 0], None),
        ({"oracle": "unjustified_confidence", "label": None}, [50, 0, 0, 0], True),
        ({"oracle": "unjustified_confidence", "label": None}, [0, 0, 0, 0], False),
    ],
)
def test_a_defect_is_known_where_the_baseline_fails_on_its_file_in_its_own_way(
    said: dict[str, Any], scores: list[float], known: bool | None
) -> None:
    x = np.zeros((1, 8, 8, 1), dtype=np.uint8)
    (found,) = asked_of(lambda _: np.array([scores], dtype=np.float32), defect(**said), x=x)
    assert found.known is known


def test_an_exception_of_the_candidate_is_known_where_the_baseline_raises_too() -> None:
    x = np.full((2, 8, 8, 1), 255, dtype=np.uint8)
    x[1] = 0
    crash = defect(oracle="crash", predicted=None)
    assert [one.known for one in asked_of(raises_on_white, crash, crash, x=x)] == [True, False]


def test_a_root_cause_counts_the_defects_that_the_baseline_has_too() -> None:
    members = [defect(id=f"d-{number:012}", known=known) for number, known in enumerate((True, False, None, True))]
    (cause,) = root_causes(members, CLASSES)
    assert (cause.size, cause.known) == (4, 2)


def test_defects_that_the_baseline_answered_count_also_where_probes_end_the_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(*_: Any) -> Any:
        raise BudgetSpent("The budget ended while the baseline was asked.", where="budget", hint="Give more.")

    worker: Any = NumpyWorker(raises_on_white)
    work = with_baseline(tmp_path)
    work.domain.save(tmp_path / "mutant", np.zeros((8, 8, 1), dtype=np.uint8))
    work.confirmer.defects = [defect(files={"mutant_data": "mutant.png"})]
    (tmp_path / "defects" / defect().id).mkdir(parents=True)
    monkeypatch.setattr(baseline, "baseline_worker", lambda *_: nullcontext(baseline.Baseline(worker, OutputKind.LOGITS)))
    monkeypatch.setattr(baseline, "_ask_of_probes", spent)
    asked(work)
    assert work.confirmer.defects[0].baseline == 0
    assert (work.against_baseline.asked, work.against_baseline.brought_in, work.against_baseline.known) == (1, 1, 0)
    assert work.against_baseline.reason == "the budget ended"


def asked(work: Any) -> None:
    with baseline.BaselineModel(work, (0.0, 255.0)) as model:
        baseline.ask_baseline(work, work.domain, model)


def with_baseline(tmp_path: Path, **more: Any) -> Any:
    work = work_of(tmp_path, **more)
    work.baseline_reference = work.baseline = SimpleNamespace()
    work.confirmer.defects = [defect()]
    return work


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"calls": 0}, "share of the budget was used up"),
        ({"wall": 4.0}, "the budget left 4 s"),
        ({"oracles": Switches.model_validate({"baseline_disagreement": False})}, "switches the oracle off"),
    ],
)
def test_where_there_is_no_room_for_a_second_model_none_is_started_and_the_record_says_why(
    tmp_path: Path, more: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "Worker", lambda *_, **__: pytest.fail("a worker was started"))
    work = with_baseline(tmp_path, **more)
    asked(work)
    assert words in work.against_baseline.reason
    assert work.against_baseline.asked == 0


def test_a_baseline_that_cannot_be_fetched_is_not_the_candidates_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> Any:
        raise RegistryError("The model is gone.", where="models:/x/1", hint="Look.")

    monkeypatch.setattr(baseline, "download_model", gone)
    work = with_baseline(tmp_path)
    asked(work)
    assert work.against_baseline.reason == "The model is gone"


def test_probes_that_show_nothing_are_asked_of_the_baseline_too(tmp_path: Path) -> None:
    work = work_of(tmp_path)
    said = ProbeOracle(tried=5, findings=0)
    work.probes = ProbesSummary(offered=88, run=20, oracles={"unjustified_confidence": said})
    empty = baseline._empty_probes(work, work.domain)
    worker: Any = NumpyWorker(lambda x: np.tile(np.array([50, 0, 0, 0], dtype=np.float32), (len(x), 1)))
    sure = baseline._ask_of_probes(work, baseline.Baseline(worker, OutputKind.LOGITS), empty)
    assert sure == len(empty) > 0
    assert work.probes.oracles["unjustified_confidence"].baseline == len(empty)
    assert work.allowance.spent == len(empty)
