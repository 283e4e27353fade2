"""The test in a defect's folder fails on the faulty model and passes on the fixed one, without the gate, and no text in it can act."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from reproduced_models import Answering, Brightness
from test_repair import defect as any_defect

from gate.config import InputSettings
from gate.domains.image import picture
from gate.models.outputs import OutputKind
from gate.oracles.numeric_path import NumericPath
from gate.result import Defect
from gate.triage.backends import ALONE, COMPANY
from gate.triage.reproducer import REPRODUCER, Reader, reproducer, write_reproducers

NO_GATE = """
import sys

class NoGate:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "gate":
            raise ImportError("the gate is not here")

sys.meta_path.insert(0, NoGate())

def pytest_sessionfinish():
    assert "gate" not in sys.modules
"""


@dataclass(frozen=True)
class Case:
    """One way in which models and files come."""

    sample: np.ndarray  # [H, W, C]: a light picture, class 1
    settings: InputSettings
    value_range: tuple[float, float]
    kind: OutputKind
    middle: float  # between dark and light in what the model sees
    channel: int | None = None
    axis: int = 1
    form: str = "scores"
    key: str | int | None = None
    format: str = "pickle"
    shape: tuple[int, ...] = (1, 6, 6)
    oracle: str = "changed_prediction"
    detail: str | None = None
    broken: str | None = None  # the faulty model's form where it is not simply wrong
    label: int | None = 1


GREY = np.full((6, 6, 1), 200, np.uint8)
PLAIN = InputSettings(size=(6, 6), channels=1)
COLOUR = InputSettings(size=(6, 6), channels=3, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.5), order="bgr", layout="nhwc")
# Of three channels only red is light, and the model looks at the last one it sees: it needs the order turned round to find it.
RED = np.stack([np.full((6, 6), 220), np.full((6, 6), 10), np.full((6, 6), 10)], axis=2).astype(np.uint8)
FLOATS = np.full((6, 6, 1), -1.0, np.float32)  # light only where the scale is turned round

CASES: dict[str, Case] = {
    "grey": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5),
    "program": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, format="pt2"),
    "colour": Case(RED, COLOUR, (0.0, 255.0), OutputKind.LOGITS, 0.0, channel=2, axis=3, form="second", key=1, shape=(6, 6, 3)),
    "floats": Case(
        FLOATS,
        InputSettings(size=(6, 6), channels=1, scale=(1.0, 0.0), layout="flat"),
        (-2.0, 2.0),
        OutputKind.PROBABILITIES,
        0.5,
        form="dict",
        shape=(36,),
    ),
    "sigmoid": Case(GREY, PLAIN.model_copy(update={"layout": "nhw"}), (0.0, 255.0), OutputKind.SIGMOID, 0.5, form="sigmoid", shape=(6, 6)),
    "logarithms": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOG_PROBABILITIES, 0.5, form="logarithms"),
    "infinite": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="non_finite", broken="infinite", label=None),
    "raises": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="crash", broken="raises"),
    "slow": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="timeout"),
    "beside": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="batch_dependence", detail=COMPANY),
    "alone": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="batch_dependence", detail=ALONE),
    "collapsed": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="confidence_collapse"),
    "saturated": Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="saturated"),
    **{
        path: Case(GREY, PLAIN, (0.0, 255.0), OutputKind.LOGITS, 0.5, oracle="numeric_path", detail=path)
        for path in NumericPath.PATHS
        if path != "compiled"  # compiling takes a minute
    },
}


def defect(case: Case, identity: str = "d-000000000000", **changes: Any) -> Defect:
    name = "mutant.npz" if case.sample.dtype != np.uint8 else "mutant.png"
    fields = {
        "id": identity,
        "label": case.label,
        "predicted": None if case.broken else 0,
        "oracle": case.oracle,
        "detail": case.detail,
        "files": {"mutant_data": f"defects/{identity}/{name}"},
    }
    return any_defect(**{**fields, **changes})


def reader(case: Case, model: str) -> Reader:
    return Reader(model, None, case.settings, case.value_range, case.kind, case.key, 2)


def saved(case: Case, folder: Path, *, faulty: bool) -> Path:
    network: Any = Brightness(case.middle, faulty=faulty, channel=case.channel, axis=case.axis)
    form = case.broken if faulty and case.broken else case.form
    mlflow.pytorch.save_model(
        Answering(network, form).eval(),
        folder,
        serialization_format=case.format,
        input_example=np.zeros((4, *case.shape), np.float32) if case.format == "pt2" else None,
        pip_requirements=["torch"],
    )
    return folder


def outcomes(place: Path) -> dict[str, str]:
    """By folder, what became of its test: pytest in a process of its own, from a folder that holds no gate."""
    (place / "conftest.py").write_text(NO_GATE)
    report = place / "report.xml"
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-q",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        f"--junit-xml={report}",
        ".",
    ]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=240, check=False)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        assert case.find("error") is None, done.stdout[-3000:]
        failure = case.find("failure")
        found[(case.get("classname") or "").replace(".", "/")] = (
            "passed" if failure is None else str(failure.get("message")).splitlines()[0]
        )
    return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("reproducers")
    for name, case in CASES.items():
        for state in ("faulty", "fixed"):
            model = saved(case, place / "models" / f"{state}-{name}", faulty=state == "faulty")
            run = place / "tests" / state / name
            folder = run / "defects" / "d-000000000000"
            folder.mkdir(parents=True)
            picture.save(folder / "mutant", case.sample, case.value_range)
            assert write_reproducers(run, (defect(case),), reader(case, str(model))) == 1
    return outcomes(place / "tests")


def of(tried: dict[str, str], state: str, name: str) -> str:
    (found,) = (what for where, what in tried.items() if where.startswith(f"{state}/{name}/"))
    return found


@pytest.mark.parametrize("name", CASES)
def test_it_fails_on_the_faulty_model_and_passes_on_the_fixed_one(tried: dict[str, str], name: str) -> None:
    assert of(tried, "fixed", name) == "passed"
    said = of(tried, "faulty", name)
    wanted = {"infinite": "not finite", "raises": "no such picture"}.get(name, "read as class 0, and it shows class 1")
    assert wanted in said


HOSTILE = (
    'models:/it\'s "quoted"/1',
    "'''\nimport os; os.system('touch pwned')\n'''",
    '"""\nraise SystemExit\n"""',
    "line\nbreak\r\x00\x1b[31m",
    "lone \ud800 and \u202e turned",
    "back\\slash\\",
    "{braces} %s #comment",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_a_literal_and_nothing_else(text: str) -> None:
    case = CASES["grey"]
    program = reproducer(defect(case), Reader(text, text, case.settings, case.value_range, case.kind, text, 2))
    assert program.isascii()
    tree = ast.parse(program)
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert texts.count(text) == 3  # the model, the tracking server, the output's key
    plain = ast.parse(reproducer(defect(case), Reader("a", "a", case.settings, case.value_range, case.kind, "a", 2)))
    kinds = [type(node).__name__ for node in ast.walk(tree)]
    assert kinds == [type(node).__name__ for node in ast.walk(plain)]


def test_a_detail_of_the_fault_does_not_get_into_the_program() -> None:
    for oracle in ("numeric_path", "crash", "batch_dependence"):
        program = reproducer(defect(CASES["grey"], oracle=oracle, detail='"""\nimport os\n"""'), reader(CASES["grey"], "m"))
        assert 'import os\n"' not in program
        ast.parse(program)


def test_every_way_in_which_a_model_is_run_makes_a_program() -> None:
    for path in NumericPath.PATHS:
        program = reproducer(defect(CASES["grey"], oracle="numeric_path", detail=path), reader(CASES["grey"], "m"))
        assert f"on the numeric path {path}" in program
        ast.parse(program)


def test_it_says_that_loading_a_model_runs_its_code() -> None:
    assert "Loading a model runs the code that it brings along" in reproducer(defect(CASES["grey"]), reader(CASES["grey"], "m"))


def test_thousands_of_defects_cost_little(tmp_path: Path) -> None:
    case = CASES["grey"]
    many = tuple(defect(case, f"d-{number:012x}") for number in range(2000))
    for one in many:
        (tmp_path / "defects" / one.id).mkdir(parents=True)
    assert write_reproducers(tmp_path, many, reader(case, "m")) == 2000
    assert sum(path.stat().st_size for path in tmp_path.rglob(REPRODUCER)) < 2000 * 6000


def test_a_defect_whose_folder_or_file_is_of_another_kind_gets_none(tmp_path: Path) -> None:
    case = CASES["grey"]
    (tmp_path / "defects" / "d-000000000001").mkdir(parents=True)
    wrong = defect(case, "d-000000000001", files={"mutant_data": "../../elsewhere.sh"})
    assert write_reproducers(tmp_path, (defect(case, "d-000000000002"), wrong), reader(case, "m")) == 0
    assert not list(tmp_path.rglob("*.py"))
