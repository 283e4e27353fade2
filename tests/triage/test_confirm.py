"""A finding counts only once it was saved, loaded, run alone, and seen again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_model import CLASSES, NumpyWorker, images, reads_stripes
from PIL import Image

from gate.campaign.batch import Finding
from gate.campaign.supervisor import Refused
from gate.domains.image import picture
from gate.domains.image.domain import ImageDomain
from gate.domains.image.limits import Domain
from gate.errors import WorkerError
from gate.models.outputs import OutputKind
from gate.oracles import Switches, panel
from gate.result import Defect, FlakyFinding
from gate.triage.confirm import REPLAYS, REPLAYS_UNSTEADY, Confirmer
from gate.triage.quarantine import MOST_KEPT

X, Y = images(8)
DOMAIN = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))


def wrong(x: np.ndarray) -> np.ndarray:
    return np.roll(reads_stripes(x), 1, axis=1)


def confirmer(
    folder: Path,
    model: Callable[[np.ndarray], np.ndarray] = wrong,
    *,
    deterministic: bool = True,
    mixed: bool = False,
    **options: Any,
) -> Confirmer:
    domain = options.pop("domain", DOMAIN)
    return Confirmer(
        NumpyWorker(model),
        domain,
        options.pop("seeds", X),
        CLASSES,
        folder,
        OutputKind.LOGITS,
        deterministic=deterministic,
        mixed=mixed,
        **options,
    )


def finding(row: int = 0, **changes: Any) -> Finding:
    recipe = (DOMAIN.step("gamma", 0.25, 3), DOMAIN.step("fog", 0.5, 4))
    fields = {
        "arm": "search",
        "step": 1,
        "slot": 2,
        "seed": row,
        "seed_id": f"s-{row}",
        "mutant": DOMAIN.replay(X[row], recipe),
        "recipe": recipe,
        "families": ("photometry", "weather"),
        "natural": True,
        "oracle": "changed_prediction",
        "label": int(Y[row]),
        "predicted": (int(Y[row]) + 1) % 4,
        "confidence_before": 0.99,
        "confidence_after": 0.5,
    }
    return Finding(**{**fields, **changes})


def left(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def test_a_defect_is_whole_on_disk_and_its_files_tell_the_same(tmp_path: Path) -> None:
    found = finding()
    sure = confirmer(tmp_path)
    assert sure.confirm(found)
    (defect,) = sure.defects
    assert {path.name for path in left(tmp_path)} == {"original.png", "mutant.png", "diff.png", "defect.json"}
    assert all((tmp_path / path).is_file() for path in defect.files.values())
    np.testing.assert_array_equal(picture.load(tmp_path / defect.files["mutant_data"]), found.mutant)
    np.testing.assert_array_equal(picture.load(tmp_path / defect.files["original_data"]), X[0])
    with Image.open(tmp_path / defect.files["diff"]) as difference:
        np.testing.assert_array_equal(np.asarray(difference), DOMAIN.difference(X[0], found.mutant))
    assert Defect.model_validate(json.loads((tmp_path / "defects" / defect.id / "defect.json").read_text())) == defect
    assert (defect.label, defect.predicted, defect.operator, defect.family) == (0, 1, "fog", "photometry+weather")
    assert defect.severity == 0.75
    assert [step["operator"] for step in defect.recipe] == ["gamma", "fog"]
    assert defect.confidence_after is not None
    assert defect.confidence_after > 0.5
    assert sure.flaky == 0


def test_it_is_run_alone_from_the_file(tmp_path: Path) -> None:
    seen: list[np.ndarray] = []
    sure = confirmer(tmp_path, lambda x: seen.append(x) or wrong(x))
    found = finding()
    sure.confirm(found)
    assert [x.shape for x in seen] == [(1, 8, 8, 1)] * REPLAYS
    assert all((x[0] == found.mutant).all() for x in seen)


def test_a_defect_that_vanishes_after_saving_is_dropped(tmp_path: Path) -> None:
    kept = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    load = kept.load
    kept.load = lambda path: load(path) // 2  # type: ignore[method-assign]
    full = finding().mutant.mean()
    sure = confirmer(tmp_path, lambda x: wrong(x) if x.mean() > 0.9 * full else reads_stripes(x), domain=kept)
    assert not sure.confirm(finding())
    assert (sure.flaky, sure.defects) == (1, [])
    assert left(tmp_path / "defects") == []


@pytest.mark.parametrize("deterministic", [True, False])
def test_an_answer_that_changes_from_run_to_run_is_flaky(tmp_path: Path, deterministic: bool) -> None:
    times = REPLAYS if deterministic else REPLAYS_UNSTEADY
    count = itertools.count(1)
    sure = confirmer(tmp_path, lambda x: reads_stripes(x) if next(count) == times else wrong(x), deterministic=deterministic)
    assert not sure.confirm(finding())
    assert sure.flaky == 1
    assert next(count) == times + 1
    assert left(tmp_path / "defects") == []
    (kept,) = sure.quarantine
    assert kept.seen == {"1": times - 1, "0": 1}
    assert (kept.seed_id, kept.label, kept.oracle, kept.families) == ("s-0", 0, "changed_prediction", ("photometry", "weather"))
    np.testing.assert_array_equal(picture.load(tmp_path / kept.files["mutant_data"]), finding().mutant)
    np.testing.assert_array_equal(picture.load(tmp_path / kept.files["original_data"]), X[0])
    assert FlakyFinding.model_validate_json((tmp_path / "quarantine" / kept.id / "finding.json").read_text()) == kept


def test_another_wrong_class_than_the_one_that_was_seen_is_flaky(tmp_path: Path) -> None:
    sure = confirmer(tmp_path, lambda x: np.roll(reads_stripes(x), 2, axis=1))
    assert not sure.confirm(finding())
    assert sure.flaky == 1


def test_a_lead_that_another_batch_size_could_turn_round_is_no_defect(tmp_path: Path) -> None:
    for lead, confirmed in ((1e-6, False), (1e-2, True)):
        sure = confirmer(tmp_path, lambda x, lead=lead: np.array([[1.0, 1.0 + lead, 0.0, 0.0]] * len(x), dtype=np.float32))
        assert sure.confirm(finding()) is confirmed
        assert (sure.too_close, sure.flaky, sure.quarantine) == (int(not confirmed), 0, [])


def test_of_many_flaky_findings_the_first_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    sure = confirmer(tmp_path, reads_stripes)
    for number in range(MOST_KEPT + 3):
        assert not sure.confirm(finding(seed_id=f"s-{number}"))
    assert not sure.confirm(finding())  # once more: it is known
    assert (sure.flaky, len(sure.quarantine)) == (MOST_KEPT + 4, MOST_KEPT)
    assert len(list((tmp_path / "quarantine").iterdir())) == MOST_KEPT


def raising(x: np.ndarray) -> np.ndarray:
    raise Refused("ValueError: too bright\nat line 3", where="the model, in the worker")


def crash(row: int = 0) -> Finding:
    return finding(row, oracle="crash", predicted=None, confidence_after=None, detail="ValueError: too bright")


def test_an_exception_that_comes_every_time_is_a_defect_that_says_which(tmp_path: Path) -> None:
    sure = confirmer(tmp_path, raising)
    assert sure.confirm(crash())
    (defect,) = sure.defects
    assert (defect.oracle, defect.detail, defect.predicted, defect.confidence_after) == ("crash", "ValueError: too bright", None, None)
    assert defect.also == ()


def test_an_exception_that_does_not_come_again_is_flaky(tmp_path: Path) -> None:
    count = itertools.count(1)
    sure = confirmer(tmp_path, lambda x: raising(x) if next(count) == 1 else wrong(x))
    assert not sure.confirm(crash())
    (kept,) = sure.quarantine
    assert kept.seen == {"crash": 1, "1": 1}


def test_a_broken_number_is_no_crash_and_a_crash_no_broken_number(tmp_path: Path) -> None:
    nan = lambda x: np.full((len(x), 4), np.nan, dtype=np.float32)  # noqa: E731
    assert not confirmer(tmp_path, nan).confirm(crash())
    assert not confirmer(tmp_path, raising).confirm(finding(oracle="non_finite", predicted=None, confidence_after=None))


def test_other_oracles_that_hold_are_kept_beside_the_first(tmp_path: Path) -> None:
    for scale, also in ((100, ("confident_misclassification",)), (0.1, ())):
        sure = confirmer(tmp_path, lambda x, scale=scale: wrong(x) * scale)
        assert sure.confirm(finding())
        assert sure.defects[0].also == also


def test_a_collapse_is_confirmed_against_the_seed_inputs_answer(tmp_path: Path) -> None:
    doubtful = lambda x: np.array([[1.0, 0.95, 0.0, 0.0]] * len(x), dtype=np.float32)  # noqa: E731
    for clean, confirmed in ((0.95, True), (0.4, False)):
        known = np.full((8, 4), (1 - clean) / 3)
        known[:, 0] = clean
        sure = confirmer(tmp_path, doubtful, oracles=panel(Switches.model_validate({"confidence_collapse": True})), clean=known)
        assert sure.confirm(finding(oracle="confidence_collapse", predicted=0)) is confirmed
        assert sure.too_close == int(not confirmed)


def test_an_output_that_is_not_finite_is_confirmed_as_such(tmp_path: Path) -> None:
    sure = confirmer(tmp_path, lambda x: np.full((len(x), 4), np.nan, dtype=np.float32))
    assert sure.confirm(finding(oracle="non_finite", predicted=None, confidence_after=None))
    (defect,) = sure.defects
    assert defect.predicted is None
    assert defect.confidence_after is None
    assert not sure.confirm(finding(1))  # a wrong class was seen, and now there is none
    assert sure.flaky == 1


def test_float_data_is_kept_exactly_with_pictures_to_look_at(tmp_path: Path) -> None:
    domain = ImageDomain(Domain(), (8, 8, 1), np.float32, (0.0, 1.0))
    seeds = X.astype(np.float32) / 255
    mutant = (seeds[0] * np.float32(0.7)).astype(np.float32)
    found = finding(mutant=mutant)
    for brighter in (False, True):  # the second time as a run that takes the folder over
        mutant = mutant * np.float32(1.2) if brighter else mutant
        sure = confirmer(tmp_path, domain=domain, seeds=seeds)
        found = finding(mutant=mutant)
        assert sure.confirm(found)
        (defect,) = sure.defects
        assert defect.files["mutant_data"].endswith("mutant.npz")
        assert {p.name for p in left(tmp_path)} == {
            *("original.png", "mutant.png", "diff.png", "original.npz", "mutant.npz", "defect.json")
        }
        np.testing.assert_array_equal(picture.load(tmp_path / defect.files["mutant_data"]), mutant)
        with Image.open(tmp_path / defect.files["mutant"]) as shown:
            np.testing.assert_array_equal(np.asarray(shown), domain.picture(mutant))


def test_the_description_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> np.ndarray:
        raise MemoryError

    domain = ImageDomain(Domain(), (8, 8, 1), np.uint8, (0.0, 255.0))
    monkeypatch.setattr(domain, "difference", fail)
    sure = confirmer(tmp_path, domain=domain)
    with pytest.raises(MemoryError):
        sure.confirm(finding())
    assert sure.defects == []
    assert "defect.json" not in {path.name for path in left(tmp_path)}


def test_a_worker_that_dies_meanwhile_leaves_no_described_defect(tmp_path: Path) -> None:
    def die(x: np.ndarray) -> np.ndarray:
        raise WorkerError("The worker died.")

    sure = confirmer(tmp_path, die)
    with pytest.raises(WorkerError):
        sure.confirm(finding())
    assert sure.defects == []
    assert "defect.json" not in {path.name for path in left(tmp_path)}


def test_identities_are_the_same_in_every_run_and_tell_what_is_distinct(tmp_path: Path) -> None:
    def identity(name: str, **changes: Any) -> tuple[str, str]:
        sure = confirmer(tmp_path / name, wrong)
        assert sure.confirm(finding(**changes))
        return sure.defects[0].id, sure.defects[0].root_cause

    here = identity("one")
    assert identity("again", step=9, slot=9, mutant=DOMAIN.replay(X[0], [DOMAIN.step("gamma", 0.1, 1)])) == here
    other_seed = identity("seed", seed_id="s-other")
    assert other_seed[0] != here[0]
    assert other_seed[1] == here[1]
    family = identity("family", families=("weather",))
    assert family[0] != here[0]
    assert family[1] != here[1]
    assert identity("arm", arm="judging") == here


def test_a_defect_that_two_arms_find_is_one_defect(tmp_path: Path) -> None:
    sure = confirmer(tmp_path, wrong)
    assert sure.confirm(finding(arm="judging"))
    assert sure.confirm(finding(arm="search", mutant=DOMAIN.replay(X[0], [DOMAIN.step("gamma", 0.1, 1)])))
    assert [defect.arm for defect in sure.defects] == ["judging"]
    assert sure.found_by == {sure.defects[0].id: {"judging", "search"}}


@pytest.mark.parametrize(
    ("mixed", "arm", "precision_only"), [(True, "search", 1), (True, "judging", 0), (False, "search", 0)], ids=["mixed", "judging", "full"]
)
def test_what_only_mixed_precision_gets_wrong_is_no_defect_and_is_not_called_flaky(
    mixed: bool, arm: str, precision_only: int, tmp_path: Path
) -> None:
    sure = confirmer(tmp_path, reads_stripes, mixed=mixed)
    assert not sure.confirm(finding(arm=arm))
    assert (sure.precision_only, sure.flaky) == (precision_only, 1 - precision_only)
    assert not left(tmp_path / "defects")
    assert len(sure.quarantine) == 1 - precision_only


def test_replays_that_differ_among_themselves_are_flaky_in_mixed_precision_too(tmp_path: Path) -> None:
    turns = itertools.count()
    sure = confirmer(tmp_path, lambda x: np.roll(reads_stripes(x), 2 + next(turns) % 2, axis=1), mixed=True)
    assert not sure.confirm(finding())
    assert (sure.precision_only, sure.flaky) == (0, 1)
