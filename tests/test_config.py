"""Settings: which layer wins, where each value came from, and what is refused with which help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gate.config import Settings, duration, load
from gate.errors import ConfigError


def _file(folder: Path, text: str) -> Path:
    path = folder / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No gate.yaml of the working folder is read by accident."""
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))


LAYERS: list[tuple[dict[str, str], str, dict[str, Any], int, str]] = [
    ({}, "", {}, 0, "default"),
    ({"GATE_SEED": "1"}, "", {}, 1, "GATE_SEED"),
    ({"GATE_SEED": "1"}, "\nseed: 2\n", {}, 2, ":2"),
    ({"GATE_SEED": "1"}, "\nseed: 2\n", {"seed": 3}, 3, "command line"),
    ({}, "", {"seed": 3}, 3, "command line"),
    ({"GATE_SEED": "1"}, "", {"seed": None}, 1, "GATE_SEED"),
]


@pytest.mark.parametrize(("environment", "text", "command_line", "value", "origin"), LAYERS)
def test_the_later_layer_wins_and_is_remembered(
    environment: dict[str, str], text: str, command_line: dict[str, Any], value: int, origin: str, tmp_path: Path
) -> None:
    path = _file(tmp_path, text) if text else None
    loaded = load(path, environment=environment, command_line=command_line)
    assert loaded.settings.seed == value
    row = next(row for row in loaded.rows() if row[0] == "seed")
    assert row[1] == value
    assert row[2].endswith(origin)


def test_leaves_of_one_section_may_come_from_three_layers(tmp_path: Path) -> None:
    path = _file(tmp_path, "budget:\n  wall: 10m\n  executions: 100\n")
    loaded = load(path, environment={"GATE_BUDGET_DEVICE": "90s"}, command_line={"budget.executions": 7})
    assert loaded.settings.budget.model_dump() == {"wall": 600.0, "executions": 7, "device": 90.0}
    origins = {key: origin for key, _, origin in loaded.rows() if key.startswith("budget.")}
    assert origins == {
        "budget.device": "GATE_BUDGET_DEVICE",
        "budget.wall": f"{path}:2",
        "budget.executions": "command line",
    }


def test_every_setting_has_a_row_and_the_rows_are_the_settings() -> None:
    rows = {key: value for key, value, _ in load(environment={}).rows()}
    assert {"model", "data.seeds", "budget.wall", "input.size", "output.key", "coverage.layers", "policy", "advisory"} <= set(rows)
    assert all(origin == "default" for _, _, origin in load(environment={}).rows())
    top = {key.split(".")[0] for key in rows}
    assert top == set(Settings.model_fields)


def test_the_file_of_the_working_folder_is_read_unless_another_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _file(tmp_path, "seed: 5\n")
    monkeypatch.chdir(tmp_path)
    assert load(environment={}).settings.seed == 5
    (tmp_path / "other.yaml").write_text("seed: 6\n")
    assert load(Path("other.yaml"), environment={}).settings.seed == 6
    with pytest.raises(ConfigError, match=r"absent\.yaml"):
        load(Path("absent.yaml"), environment={})


@pytest.mark.parametrize("text", ["", "# nothing\n", "budget: {}\n", "{}\n"])
def test_an_empty_file_sets_nothing(text: str, tmp_path: Path) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    assert load(path, environment={}).settings == Settings()


UNKNOWN = [
    ("modle: a\n", "'modle'", "'model'", 1),
    ("input: {siz: [8, 8]}\n", "'input.siz'", "'size'", 1),
    ("seed: 1\nbudget:\n  wal: 5m\n", "'budget.wal'", "'wall'", 3),
    ("data:\n  seed: x.npz\n", "'data.seed'", "'seeds'", 2),
    ("long_tail: x\n", "'long_tail'", None, 1),
]


@pytest.mark.parametrize(("text", "key", "close", "line"), UNKNOWN)
def test_an_unknown_key_names_the_nearest_and_its_line(text: str, key: str, close: str | None, line: int, tmp_path: Path) -> None:
    path = _file(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path, environment={})
    assert key in caught.value.what
    assert caught.value.where == f"{path}:{line}"
    assert caught.value.hint
    if close is not None:
        assert close in caught.value.hint


def test_an_unknown_variable_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        load(environment={"GATE_POLCY": "smoke"})
    assert caught.value.where == "GATE_POLCY"
    assert "GATE_POLICY" in str(caught.value.hint)
    assert load(environment={"GATEWAY": "1", "XGATE_SEED": "4"}).settings == Settings()


VARIABLES: list[tuple[str, str, str, Any]] = [
    ("GATE_MODEL", "models:/digits/2", "model", "models:/digits/2"),
    ("GATE_MODEL", "123", "model", "123"),
    ("GATE_DATA_SEEDS", "no", "data.seeds", "no"),
    ("GATE_DATA_LONG_TAIL", "fog.npz", "data.long_tail", "fog.npz"),
    ("GATE_BUDGET_WALL", "1h30m", "budget.wall", 5400.0),
    ("GATE_BUDGET_EXECUTIONS", "200", "budget.executions", 200),
    ("GATE_INPUT_SIZE", "[28, 32]", "input.size", [28, 32]),
    ("GATE_INPUT_MEAN", "[1e-1, 0.2, 0.3]", "input.mean", [0.1, 0.2, 0.3]),
    ("GATE_COVERAGE_CRITERIA", "[nc]", "coverage.criteria", ["nc"]),
    ("GATE_ADVISORY", "true", "advisory", True),
    ("GATE_PUBLISH", "false", "publish", False),
    ("GATE_OUTPUT_KEY", "logits", "output.key", "logits"),
    ("GATE_OUTPUT_KEY", "1", "output.key", 1),
]


@pytest.mark.parametrize(("variable", "text", "key", "value"), VARIABLES)
def test_a_variable_is_read_as_its_setting_is_typed(variable: str, text: str, key: str, value: Any) -> None:
    rows = {row[0]: row for row in load(environment={variable: text}).rows()}
    assert rows[key] == (key, value, variable)


BAD: list[tuple[str, str]] = [
    ("seed: -1\n", "seed"),
    ("seed: 1.5\n", "seed"),
    ('seed: "1"\n', "seed"),
    ("seed: true\n", "seed"),
    ("seed: 9223372036854775808\n", "seed"),
    ("batch_size: 0\n", "batch_size"),
    ("advisory: 1\n", "advisory"),
    ("advisory: no\n", "advisory"),  # a string in YAML 1.2
    ("device: gpu\n", "device"),
    ("input: {size: 28}\n", "input.size"),
    ("input: {size: [28]}\n", "input.size"),
    ("input: {size: [0, 28]}\n", "input.size"),
    ("input: {std: [0]}\n", "input.std"),
    ("input: {std: []}\n", "input.std"),
    ("input: {channels: 3, mean: [1, 2]}\n", "input"),
    ("input: {scale: [1, 1]}\n", "input.scale"),
    ("input: {range: [1, 0]}\n", "input.range"),
    ("input: {order: rbg}\n", "input.order"),
    ("input: {mean: [.inf]}\n", "input.mean"),
    ("input: [28, 28]\n", "'input'"),
    ("coverage: {criteria: []}\n", "coverage.criteria"),
    ("coverage: {criteria: [kmnc, kmnc]}\n", "coverage.criteria"),
    ("coverage: {criteria: [mcdc]}\n", "coverage.criteria"),
    ("coverage: {guide: [nc]}\n", "coverage"),
    ("coverage: {layers: conv*}\n", "auto or a list of names"),
    ("coverage: {layers: [0, 3]}\n", "need quotes"),
    ("coverage: {nc_scale: none, nc_threshold: 1e39}\n", "coverage.nc_threshold"),  # float32 ends at 3.4e38
    ("coverage: {nbc_bounds: [0, 1e39]}\n", "coverage.nbc_bounds"),
    ("coverage: {snac_margin: 1e300}\n", "coverage.snac_margin"),
    ("coverage: {map_threshold: -1e39}\n", "coverage.map_threshold"),
    ("classes: 10\n", "classes"),
    ("classes: [1, 2]\n", "classes"),
    ("budget: {wall: 600}\n", "budget.wall"),
    ("budget: {wall: ten minutes}\n", "budget.wall"),
    ("budget: {executions: 0}\n", "budget.executions"),
    ("budget: {executions: 1e3}\n", "budget.executions"),
]


@pytest.mark.parametrize(("text", "key"), BAD)
def test_a_value_that_does_not_fit_is_told_with_its_line(text: str, key: str, tmp_path: Path) -> None:
    path = _file(tmp_path, "# a comment\n" + text)
    with pytest.raises(ConfigError) as caught:
        load(path, environment={})
    assert key in caught.value.what
    assert caught.value.where == f"{path}:2"
    assert caught.value.hint


def test_a_bad_value_names_the_layer_it_came_from(tmp_path: Path) -> None:
    path = _file(tmp_path, "seed: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(path, environment={"GATE_BATCH_SIZE": "0"})
    assert caught.value.where == "GATE_BATCH_SIZE"
    with pytest.raises(ConfigError) as caught:
        load(path, environment={}, command_line={"seed": -3})
    assert caught.value.where == "command line"


def test_paths_in_a_file_are_relative_to_it_and_those_of_other_layers_are_not(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        "data: {seeds: seeds.npz, long_tail: runs:/0123/fog.npz, profile: /absolute/train}\nclasses: names.txt\nout: results\n",
    )
    data = load(path, environment={}).settings
    assert data.data.seeds == str(tmp_path / "seeds.npz")
    assert data.data.long_tail == "runs:/0123/fog.npz"
    assert data.data.profile == "/absolute/train"
    assert data.classes == str(tmp_path / "names.txt")
    assert data.out == str(tmp_path / "results")
    other = load(path, environment={}, command_line={"data.seeds": "seeds.npz", "out": "here"}).settings
    assert (other.data.seeds, other.out) == ("seeds.npz", "here")
    assert load(environment={"GATE_DATA_SEEDS": "seeds.npz"}).settings.data.seeds == "seeds.npz"


NAMES = ["models:/digits/2", "models:/digits@champion", "models:/m-0123456789abcdef", "runs:/0123/model", "mlflow-artifacts:/1/x"]


@pytest.mark.parametrize("uri", NAMES)
def test_a_uri_in_a_file_stays_as_it_is(uri: str, tmp_path: Path) -> None:
    settings = load(_file(tmp_path, f"model: {uri}\nbaseline: {uri}\n"), environment={}).settings
    assert settings.model == settings.baseline == uri


def test_a_word_that_may_be_a_name_or_a_file_is_a_file_where_there_is_one(tmp_path: Path) -> None:
    text = "policy: smoke\nprevious: auto\nmodel: candidate\n"
    plain = load(_file(tmp_path, text), environment={}).settings
    assert (plain.policy, plain.previous, plain.model) == ("smoke", "auto", "candidate")
    (tmp_path / "candidate").mkdir()
    assert load(tmp_path / "gate.yaml", environment={}).settings.model == str(tmp_path / "candidate")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), (" 5m ", 300), ("0.5s", 0.5)]
)
def test_durations_read_as_people_write_them(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "0s", "0h0m", "-5m", "10", "10 m", "10min", "m", "1e3s", "5m 3s", "nan", "infs", 10, 0, True, "9" * 12 + "h"]
)
def test_what_is_no_duration_is_refused(text: str | int) -> None:
    with pytest.raises(ValueError, match="is no"):
        duration(text)


def test_a_lone_surrogate_in_a_value_is_replaced(tmp_path: Path) -> None:
    settings = load(_file(tmp_path, 'classes: ["\\ud800", "b"]\n'), environment={}).settings
    assert settings.classes == ("?", "b")


def test_settings_can_not_be_changed_afterwards() -> None:
    settings = load(environment={}).settings
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 3  # type: ignore[misc]


def test_settings_survive_json_as_they_are() -> None:
    settings = Settings.model_validate(
        {"coverage": {"layers": ("conv*", "1"), "criteria": "kmnc+nbc", "guide": ("nbc",), "nbc_bounds": (0.1, 0.9)}, "classes": ("a", "b")}
    )
    assert Settings.model_validate_json(settings.model_dump_json()) == settings
