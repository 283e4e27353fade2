"""Which oracles are on is the policy's business, and part of its digest."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from gate.errors import PolicyError
from gate.oracles import ALL, Switches, panel
from gate.policy.describe import describe
from gate.policy.load import LoadedPolicy, load_policy, shipped_policies

DOCS = Path(__file__).parents[2] / "docs"


def policy(folder: Path, oracles: str, extends: str = "baseline") -> LoadedPolicy:
    path = folder / f"policy-{len(list(folder.iterdir()))}.yaml"
    path.write_text(f"version: 1\nname: own\nextends: [{extends}]\noracles: {oracles}\n")
    return load_policy(str(path))


def names(switches: Switches) -> list[str]:
    return [oracle.name for oracle in panel(switches)]


def test_faults_and_changed_predictions_are_on_by_default_and_doubts_are_not() -> None:
    assert names(Switches()) == ["crash", "timeout", "non_finite", "changed_prediction", "confident_misclassification"]


@pytest.mark.parametrize("name", shipped_policies())
def test_no_shipped_policy_counts_a_kept_prediction_as_a_defect(name: str) -> None:
    assert not {"confidence_collapse", "saturated"} & set(names(load_policy(name).policy.oracles))


def test_true_false_and_thresholds_are_understood(tmp_path: Path) -> None:
    own = policy(
        tmp_path, "{confidence_collapse: true, non_finite: false, confident_misclassification: {above: 0.5}, saturated: {above: 100}}"
    )
    chosen = own.policy.oracles
    assert names(chosen) == ["crash", "timeout", "saturated", "changed_prediction", "confident_misclassification", "confidence_collapse"]
    assert (chosen.confident_misclassification.above, chosen.saturated.above) == (0.5, 100.0)
    assert not policy(tmp_path, "{saturated: {on: false, above: 7}}").policy.oracles.saturated.on


def test_a_policy_that_extends_another_switches_one_oracle_only(tmp_path: Path) -> None:
    policy(tmp_path, "{confidence_collapse: {below: 0.2}}")
    first = next(tmp_path.iterdir()).name
    chosen = policy(tmp_path, "{crash: false}", extends=first).policy.oracles
    assert chosen.confidence_collapse.on
    assert chosen.confidence_collapse.below == 0.2
    assert not chosen.crash.on


def test_switches_belong_to_the_digest(tmp_path: Path) -> None:
    digests = {policy(tmp_path, text).info.digest for text in ("{}", "{confidence_collapse: true}", "{confidence_collapse: {below: 0.2}}")}
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("oracles", "what", "hint"),
    [
        ("{confidence_colapse: true}", "Unknown key 'confidence_colapse'", "confidence_collapse"),
        ("{confidence_collapse: {above: 0.3}}", "Unknown key 'above'", "below"),
        ("{confidence_collapse: 3}", "true, false or its thresholds", "docs/policies.md"),
        ("{confidence_collapse: {below: 0.8}}", "below must not exceed clean", "docs/policies.md"),
        ("{confident_misclassification: {above: 1.5}}", "less than 1", "docs/policies.md"),
        ("{timeout: false}", "Unknown key 'timeout'", ""),
        ("{crash: false, non_finite: false, changed_prediction: false, confident_misclassification: false}", "no oracle is left", ""),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_stands(tmp_path: Path, oracles: str, what: str, hint: str) -> None:
    with pytest.raises(PolicyError) as raised:
        policy(tmp_path, oracles)
    assert what in raised.value.what
    assert hint in str(raised.value.hint)
    assert str(raised.value.where).endswith(".yaml:4")


def test_the_policy_says_in_words_what_counts(tmp_path: Path) -> None:
    text = describe(policy(tmp_path, "{confidence_collapse: {below: 0.2}, crash: false}"), today=datetime.date(2026, 1, 1))
    assert "confidence collapse (below 0.2, clean 0.5): an input is hardly told from another class any more." in text
    assert "Off: crash, saturated." in text


def test_the_page_has_every_switch_with_its_default() -> None:
    table = rows("policies.md", "oracles.")
    wanted = {f"oracles.{name}.{key}": value for name, switch in Switches() for key, value in switch}
    assert {key: cells[0] for key, cells in table.items()} == {
        key: str(value).lower() if isinstance(value, bool) else f"{value:g}" for key, value in wanted.items()
    }


def test_the_page_has_every_oracle_as_it_declares_itself() -> None:
    lines = (DOCS / "triage.md").read_text(encoding="utf-8").splitlines()
    said = [line for line in lines if line.startswith(tuple(f"| {oracle.rank} | `" for oracle in ALL))]
    assert said == [f"| {oracle.rank} | `{oracle.name}` | {oracle.needs} | {oracle.cost} | An input {oracle.says}. |" for oracle in ALL]


def rows(page: str, start: str) -> dict[str, list[str]]:
    found = {}
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if line.startswith(f"| `{start}"):
            key, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[key.strip("`")] = cells
    return found
