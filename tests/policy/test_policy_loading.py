"""Policy files: what they mean, how they extend one another, and every way in which one can be wrong."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from gate.config import CoverageSettings
from gate.errors import PolicyError
from gate.metrics import CATALOGUE
from gate.policy import LoadedPolicy, load_policy
from gate.policy.positive import check_positive, positive_positions
from gate.policy.threshold import Threshold
from gate.policy.watched import watched

HEAD = "version: 1\nname: mine\n"
RULE = "  - {id: defect-rate, metric: defect_rate, fail: '> 0.2'}\n"


def write(folder: Path, text: str, name: str = "policy.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def load(folder: Path, text: str) -> LoadedPolicy:
    return load_policy(write(folder, text))


def refused(folder: Path, text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_full_policy_is_read_as_written(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        HEAD
        + """description: For us.
criterion: nbc
domain: {photometry: {brightness: 0.4, gamma: [0.5, 1.5]}}
arms: {judging: 0.5}
judging: {mutants_per_seed: 4}
budget: {executions: 300, wall: 10m}
rules:
  - id: defect-rate
    metric: defect_rate
    fail: "> 20%"
    warn: 0.1
    confidence: 0.95
    min_samples: 200
    slice: {by: class}
    compare: {max_rise: 0.02}
  - {id: gain, metric: coverage_gain, fail: "< 5e-3"}
waivers:
  - {rule: defect-rate, slice: truck, reason: known, owner: "@team", expires: 2027-03-31, model: "classifier/*"}
""",
    )
    policy = loaded.policy
    rate, gain = policy.rules
    assert (policy.domain.photometry.brightness, policy.domain.photometry.gamma, policy.domain.photometry.contrast) == (
        0.4,
        (0.5, 1.5),
        0.5,
    )
    assert (policy.arms.judging, policy.arms.random, policy.judging.mutants_per_seed) == (0.5, 0.05, 4)
    assert policy.budget is not None
    assert (policy.budget.executions, policy.budget.wall, policy.criterion) == (300, 600.0, "nbc")
    assert rate.fail is not None
    assert rate.warn is not None
    assert (rate.fail.comparison, rate.fail.limit, rate.warn.comparison, rate.warn.limit) == (">", 0.2, ">", 0.1)
    assert (rate.kind, rate.on_breach, rate.on_missing) == ("quality", "fail", "inconclusive")
    assert gain.fail is not None
    assert (gain.kind, gain.on_breach, gain.fail.limit) == ("adequacy", "inconclusive", 0.005)
    assert policy.waivers[0].expires == datetime.date(2027, 3, 31)
    assert loaded.rule_lines["gain"].endswith("policy.yaml:18")
    assert loaded.info.digest.startswith("sha256:")


@pytest.mark.parametrize(
    ("metric", "written", "comparison", "limit"),
    [
        ("defect_rate", "> 0.20", ">", 0.2),
        ("defect_rate", ">=20 %", ">=", 0.2),
        ("defect_rate", "20%", ">", 0.2),
        ("defect_rate", 0.2, ">", 0.2),
        ("clean_accuracy", 0.9, "<", 0.9),
        ("clean_accuracy", "0.9", "<", 0.9),
        ("coverage_gain_per_iteration", "< 0.005%", "<", 0.00005),
        ("root_causes", ">= 3", ">=", 3.0),
        ("defect_density", "< 2.0", "<", 2.0),
        ("defect_rate", "> 1e-3", ">", 0.001),
        ("preflight_faults", "> 0", ">", 0.0),
    ],
)
def test_limits_are_read_in_the_metrics_unit(metric: str, written: object, comparison: str, limit: float) -> None:
    threshold = Threshold.parse(written, CATALOGUE[metric])
    assert (threshold.comparison, threshold.limit) == (comparison, limit)


@pytest.mark.parametrize(
    ("metric", "written", "said"),
    [
        ("defect_rate", "more than 20", "is no limit"),
        ("defect_rate", "> 20", 'did you mean "> 20%"'.replace("> ", ">")),
        ("root_causes", "> 20%", "percent is for shares"),
        ("defect_rate", "== 0.2", "is no limit"),
        ("defect_rate", "> nan", "is no limit"),
        ("defect_rate", float("nan"), "is no limit"),
        ("defect_rate", float("inf"), "is no limit"),
        ("defect_rate", True, "is no limit"),
        ("defect_rate", [0.2], "is no limit"),
        ("defect_rate", "> -0.1", "never negative"),
        ("root_causes", "> 1e999", "finite"),
        ("defect_rate", "> 1", "never be breached"),
        ("coverage_gain", "< 0", "never be breached"),
        ("defect_rate", "", "is no limit"),
        ("defect_rate", "> 0.2; > 0.3", "is no limit"),
    ],
)
def test_limits_that_make_no_sense_are_refused(metric: str, written: object, said: str) -> None:
    with pytest.raises(ValueError, match=r"limit|percent|negative|finite|between") as caught:
        Threshold.parse(written, CATALOGUE[metric])
    assert said in str(caught.value)


BAD = [
    # case 25
    ("duplicate key", HEAD + "name: other\nrules:\n" + RULE, 3, "stands twice"),
    ("unknown key", HEAD + "rulez:\n" + RULE, 3, "Did you mean 'rules'?"),
    ("unknown rule key", HEAD + "rules:\n  - id: a\n    metric: defect_rate\n    fial: '> 0.2'\n", 6, "Did you mean 'fail'?"),
    ("unknown domain key", HEAD + "domain:\n  photometry:\n    brightnes: 0.1\nrules:\n" + RULE, 5, "Did you mean 'brightness'?"),
    ("unknown arm", HEAD + "arms: {judgin: 0.1}\nrules:\n" + RULE, 3, "Did you mean 'judging'?"),
    ("unknown metric", HEAD + "rules:\n  - id: a\n    metric: defct_rate\n    fail: '> 0.2'\n", 5, "Did you mean 'defect_rate'?"),
    ("no metric", HEAD + "rules:\n  - {id: a, fail: '> 0.2'}\n", 4, "has no metric"),
    ("metric is a number", HEAD + "rules:\n  - {id: a, metric: 7, fail: '> 0.2'}\n", 4, "Unknown metric 7"),
    (".nan", HEAD + "rules:\n  - id: a\n    metric: defect_rate\n    fail: .nan\n", 6, "is no limit"),
    (".nan confidence", HEAD + "rules:\n  - id: a\n    metric: defect_rate\n    fail: 0.2\n    confidence: .nan\n", 7, "confidence"),
    (".inf arms", HEAD + "arms: {judging: .inf}\nrules:\n" + RULE, 3, "arms.judging"),
    ("alias bomb", HEAD + "a: &a [x, x]\nb: &b [*a, *a]\nrules:\n" + RULE, 3, "Anchors and aliases"),
    ("python object", HEAD + "description: !!python/object/apply:os.system ['true']\nrules:\n" + RULE, 3, "tag"),
    ("text for a number", HEAD + "judging: {mutants_per_seed: many}\nrules:\n" + RULE, 3, "mutants_per_seed"),
    ("number as text", HEAD + "rules:\n  - {id: a, metric: defect_rate, fail: 0.2, min_samples: '200'}\n", 4, "min_samples"),
    ("no is text", HEAD + "rules:\n  - {id: a, metric: defect_rate, fail: 0.2, compare: {max_rise: 0.1, relative: no}}\n", 4, "relative"),
    ("version as text", "version: '1'\nname: a\nrules:\n" + RULE, 1, "version"),
    ("another version", "version: 2\nname: a\nrules:\n" + RULE, 1, "version"),
    ("no version", "name: a\nrules:\n" + RULE, 1, "no version"),
    ("no name", "version: 1\nrules:\n" + RULE, 1, "no name"),
    ("not a mapping", "- a\n", 1, "must be a mapping"),
    ("nothing", "", 1, "no version"),
    ("broken", HEAD + "rules: [\n", None, "not valid YAML"),
    ("rules a mapping", HEAD + "rules: {a: 1}\n", 3, "must be a list"),
    ("rule a text", HEAD + "rules: [defect_rate]\n", 3, "must be a mapping"),
    ("arms a list", HEAD + "arms: [0.1]\nrules:\n" + RULE, 3, "arms"),
    ("no id", HEAD + "rules:\n  - {metric: defect_rate, fail: 0.2}\n", 4, "no id"),
    ("bad id", HEAD + "rules:\n  - {id: 'a b', metric: defect_rate, fail: 0.2}\n", 4, "is no id"),
    ("duplicate ids", HEAD + "rules:\n" + RULE + RULE, 5, "stands twice"),
    ("neither fail, warn nor compare", HEAD + "rules:\n  - {id: a, metric: defect_rate}\n", 4, "none of fail, warn and compare"),
    ("warn behind fail", HEAD + "rules:\n  - {id: a, metric: defect_rate, fail: '> 0.1', warn: '> 0.2'}\n", 4, "wherever it would warn"),
    ("arms over one", HEAD + "arms: {judging: 0.8, random: 0.1, noise: 0.1}\nrules:\n" + RULE, 3, "less than 1"),
    ("negative arm", HEAD + "arms: {judging: -0.1}\nrules:\n" + RULE, 3, "arms.judging"),
    ("no mutants", HEAD + "judging: {mutants_per_seed: 0}\nrules:\n" + RULE, 3, "mutants_per_seed"),
    ("unknown slice", HEAD + "rules:\n  - {id: a, metric: defect_rate, fail: 0.2, slice: {by: colour}}\n", 4, "slice.by"),
    ("slice it lacks", HEAD + "rules:\n  - {id: a, metric: clean_accuracy, fail: 0.2, slice: {by: family}}\n", 4, "no slices by family"),
    ("not the worst", HEAD + "rules:\n  - {id: a, metric: defect_rate, fail: 0.2, slice: {by: class, worst: false}}\n", 4, "worst"),
    ("confidence 1", HEAD + "rules:\n  - {id: a, metric: defect_rate, fail: 0.2, confidence: 1}\n", 4, "confidence"),
    ("no interval to decide on", HEAD + "rules:\n  - {id: a, metric: root_causes, fail: 2, confidence: 0.9}\n", 4, "without an interval"),
    ("density as quality", HEAD + "rules:\n  - {id: a, metric: defect_density, fail: 2, kind: quality}\n", 4, "depends on the machine"),
    ("unknown criterion", HEAD + "criterion: kmmc\nrules:\n" + RULE, 3, "did you mean 'kmnc'?"),
    ("criterion without a share", HEAD + "criterion: nlc\nrules:\n" + RULE, 3, "no share of them to gain; take one of nc, kmnc"),
    ("budget without a unit", HEAD + "budget: {wall: 10 minutes}\nrules:\n" + RULE, 3, "is no duration"),
    ("budget of nothing", HEAD + "budget: {executions: 0}\nrules:\n" + RULE, 3, "budget.executions"),
    ("budget without limits", HEAD + "budget: {}\nrules:\n" + RULE, 3, "at least one of"),
    # case 26a
    ("no rules", HEAD, 1, "has no rules"),
    ("empty rules", HEAD + "rules: []\n", 3, "has no rules"),
    ("all dropped", HEAD + "extends: [base.yaml]\nrules: [{id: defect-rate, drop: true}]\n", None, "has no rules"),
    ("waiver without owner", HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, reason: r, expires: 2027-01-01}}\n", 6, "owner"),
    ("blank owner", HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, reason: r, owner: ' ', expires: 2027-01-01}}\n", 6, "blank"),
    ("waiver without reason", HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, owner: o, expires: 2027-01-01}}\n", 6, "reason"),
    ("waiver without end", HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, reason: r, owner: o}}\n", 6, "expires"),
    ("waiver for ever", HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, reason: r, owner: o, expires: never}}\n", 6, "no date"),
    (
        "waiver 31 Feb",
        HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, reason: r, owner: o, expires: 2027-02-31}}\n",
        6,
        "expires",
    ),
    (
        "waiver of no rule",
        HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect, reason: r, owner: o, expires: 2027-01-01}}\n",
        6,
        "Did you mean",
    ),
    (
        "waiver of a slice that is none",
        HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, slice: cat, reason: r, owner: o, expires: 2027-01-01}}\n",
        6,
        "not judged by slices",
    ),
    ("drops what is not there", HEAD + "extends: [base.yaml]\nrules: [{id: defect-rte, drop: true}]\n", 4, "Did you mean 'defect-rate'?"),
    ("drops by half", HEAD + "extends: [base.yaml]\nrules: [{id: defect-rate, drop: false}]\n", 4, "drop takes the value true"),
    ("extends a number", HEAD + "extends: 3\nrules:\n" + RULE, 3, "must be a list"),
    ("extends nothing there", HEAD + "extends: [baselin]\nrules:\n" + RULE, 3, "Did you mean 'baseline'?"),
    ("extends itself", HEAD + "extends: [policy.yaml]\nrules:\n" + RULE, 3, "extends itself"),
    ("extends itself by a detour", HEAD + "extends: [loop.yaml]\nrules:\n" + RULE, None, "extends itself"),
]


@pytest.mark.parametrize(("text", "line", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_bad_policy_is_refused_with_its_line(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    write(tmp_path, HEAD + "rules:\n" + RULE, "base.yaml")
    write(tmp_path, HEAD + "extends: [policy.yaml]\nrules:\n" + RULE, "loop.yaml")
    error = refused(tmp_path, text)
    assert said in str(error)
    assert error.where is not None
    if line is not None:
        assert error.where.endswith(f"policy.yaml:{line}"), error.where


def test_an_error_in_an_extended_file_names_that_file(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "rules:\n  - id: a\n    metric: defect_rate\n    fail: '> 2'\n", "base.yaml")
    error = refused(tmp_path, HEAD + "extends: [base.yaml]\n")
    assert error.where is not None
    assert error.where.endswith("base.yaml:6")


def test_extends_merges_rules_field_by_field_and_the_domain_deeply(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    write(
        tmp_path / "shared",
        HEAD
        + """description: Of the base.
domain: {geometry: {rotation: 5}, photometry: {brightness: 0.1}}
arms: {judging: 0.6}
rules:
  - {id: rate, metric: defect_rate, fail: '> 0.2', warn: '> 0.1', min_samples: 50}
  - {id: gone, metric: root_causes, fail: 3}
waivers:
  - {rule: rate, reason: a, owner: o, expires: 2027-01-01}
""",
        "base.yaml",
    )
    loaded = load(
        tmp_path,
        HEAD
        + """extends: [shared/base.yaml]
domain: {photometry: {contrast: 0.2}}
arms: {random: 0.1}
rules:
  - {id: rate, fail: '> 0.3', warn: null}
  - {id: gone, drop: true}
  - {id: new, metric: executions, fail: 10}
waivers:
  - {rule: new, reason: b, owner: o, expires: 2027-01-01}
""",
    )
    policy = loaded.policy
    assert [rule.id for rule in policy.rules] == ["rate", "new"]
    assert policy.rules[0].fail is not None
    assert (policy.rules[0].fail.limit, policy.rules[0].warn, policy.rules[0].min_samples) == (0.3, None, 50)
    assert (policy.domain.geometry.rotation, policy.domain.photometry.brightness, policy.domain.photometry.contrast) == (5, 0.1, 0.2)
    assert (policy.arms.judging, policy.arms.random) == (0.6, 0.1)
    assert [waiver.rule for waiver in policy.waivers] == ["rate", "new"]
    assert policy.description == ""


def test_a_later_base_wins_over_an_earlier_one(tmp_path: Path) -> None:
    for name, limit in (("one", 0.1), ("two", 0.2)):
        write(tmp_path, HEAD + f"rules:\n  - {{id: rate, metric: defect_rate, fail: '> {limit}'}}\n", f"{name}.yaml")
    fail = load(tmp_path, HEAD + "extends: [one.yaml, two.yaml]\n").policy.rules[0].fail
    assert fail is not None
    assert fail.limit == 0.2


def test_a_shared_ancestor_is_no_loop(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "rules:\n" + RULE, "root.yaml")
    for name in ("left", "right"):
        write(tmp_path, HEAD + "extends: [root.yaml]\n", f"{name}.yaml")
    assert len(load(tmp_path, HEAD + "extends: [left.yaml, right.yaml]\n").policy.rules) == 1


def test_a_tower_of_doubled_extends_is_stopped(tmp_path: Path) -> None:
    write(tmp_path, HEAD + "rules:\n" + RULE, "p0.yaml")
    for level in range(1, 12):
        write(tmp_path, HEAD + f"extends: [p{level - 1}.yaml, p{level - 1}.yaml]\n", f"p{level}.yaml")
    assert "64 files" in str(refused(tmp_path, HEAD + "extends: [p11.yaml]\n"))


def test_the_digest_follows_what_decides_and_not_how_it_is_written(tmp_path: Path) -> None:
    def digest(text: str) -> str:
        return load(tmp_path, text).info.digest

    plain = digest(HEAD + "rules:\n" + RULE)
    assert plain == digest(HEAD + "description: Said otherwise.\nrules:\n  - {metric: defect_rate, id: defect-rate, fail: '> 20%'}\n")
    assert plain == digest(HEAD + "arms: {judging: 0.3}\nbudget: null\nrules:\n" + RULE)
    for other in (
        HEAD + "rules:\n" + RULE.replace("0.2", "0.21"),
        HEAD + "rules:\n" + RULE.replace(">", ">="),
        HEAD + "arms: {judging: 0.31}\nrules:\n" + RULE,
        HEAD + "domain: {geometry: {rotation: 14}}\nrules:\n" + RULE,
        HEAD + f"rules:\n{RULE}waivers:\n  - {{rule: defect-rate, reason: r, owner: o, expires: 2027-01-01}}\n",
    ):
        assert digest(other) != plain


@pytest.mark.parametrize("name", ["basline", "nowhere/policy.yaml", "a\x00b", "x" * 5000, "", "."])
def test_a_policy_that_does_not_exist_is_refused_with_the_shipped_names(name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(name)
    assert "Shipped: baseline, classic, false-negative-averse, false-positive-averse, release, smoke, strict." in str(caught.value)


def test_a_policy_without_a_budget_leaves_it_to_the_gate(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD + "rules:\n" + RULE).policy.budget is None
    inherited = load(tmp_path, HEAD + "extends: [smoke]\nbudget: {wall: 90s}\n").policy.budget
    assert inherited is not None
    assert (inherited.executions, inherited.wall) == (100, 90.0)
    assert load(tmp_path, HEAD + "extends: [smoke]\nbudget: null\n").policy.budget is None


def test_a_policy_is_frozen(tmp_path: Path) -> None:
    policy = load(tmp_path, HEAD + "rules:\n" + RULE).policy
    with pytest.raises(ValueError, match="frozen"):
        policy.arms = policy.arms


def test_coverage_is_what_a_run_gets_that_names_no_criteria(tmp_path: Path) -> None:
    policy = load(tmp_path, HEAD + "coverage: {criteria: [nbc, snac], guide: [snac]}\nrules:\n" + RULE).policy
    told = watched(CoverageSettings(nbc_margin=0.5), policy)
    assert (told.criteria, told.guide, told.nbc_margin) == (("nbc", "snac"), ("snac",), 0.5)
    for given in (CoverageSettings(criteria=("kmnc",)), CoverageSettings(guide=("kmnc",))):
        assert watched(given, policy) == given
    plain = load(tmp_path, HEAD + "rules:\n" + RULE)
    assert watched(CoverageSettings(), plain.policy) == CoverageSettings()
    assert plain.info.digest != load(tmp_path, HEAD + "coverage: {criteria: [nbc]}\nrules:\n" + RULE).info.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("coverage: {criteria: [nbc], guide: [snac]}", "not among criteria"),
        ("coverage: {criteria: []}", "at least one criterion"),
        ("coverage: {criteria: [nbc, nbc]}", "each of them once"),
        ("coverage: {criteria: [nbq]}", "coverage.criteria"),
        ("coverage: {guide: [nbc]}", "coverage.criteria"),
        ("positive: [crack, crack]", "stands twice"),
        ("positive: ['']", "positive"),
        ("positive: crack", "positive"),
    ],
)
def test_coverage_and_positive_classes_that_make_no_sense_are_refused(tmp_path: Path, text: str, said: str) -> None:
    error = refused(tmp_path, f"{HEAD}{text}\nrules:\n{RULE}")
    assert said in error.what
    assert (error.where or "").endswith("policy.yaml:3")


def test_positive_classes_are_checked_against_the_models(tmp_path: Path) -> None:
    loaded = load(tmp_path, HEAD + "positive: [hole, crack]\nrules:\n" + RULE)
    check_positive(loaded, ("sound", "crack", "hole"))
    assert positive_positions(loaded.policy, ("sound", "crack", "hole")) == (1, 2)
    with pytest.raises(PolicyError, match="'hole'") as unknown:
        check_positive(loaded, ("sound", "crack", "holes"))
    assert unknown.value.hint == "Did you mean 'holes'?"
    with pytest.raises(PolicyError, match="every class"):
        check_positive(loaded, ("crack", "hole"))
