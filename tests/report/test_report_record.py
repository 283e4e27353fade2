"""result.json and its published schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sample import hostile_run, make_run

from gate.report import json_record, schema, write
from gate.result import Result, Verdict

PUBLISHED = Path(__file__).parents[2] / "docs" / "schemas" / "result-1.schema.json"


def _runs(folder: Path) -> list[Result]:
    return [make_run(folder, verdict, 3) for verdict in Verdict] + [hostile_run(folder)]


def test_the_published_schema_is_current() -> None:
    assert PUBLISHED.read_text(encoding="utf-8") == schema.text(), "run: python -m gate.report.schema > docs/schemas/result-1.schema.json"


def test_written_records_validate_and_read_back_the_same(tmp_path: Path) -> None:
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(published)
    validator = jsonschema.Draft202012Validator(published)
    for result in _runs(tmp_path):
        write(result, tmp_path)
        text = (tmp_path / "result.json").read_text(encoding="ascii")
        validator.validate(json.loads(text))
        assert json_record.render(Result.load(tmp_path)) == text


def test_an_ordinary_record_is_what_the_result_itself_gives(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.FAIL, 3)
    assert json_record.render(result) == result.to_json()


@pytest.mark.parametrize(
    "break_it",
    [
        lambda record: record.pop("verdict"),
        lambda record: record.update(verdict="passed"),
        lambda record: record.update(schema="gate.result/2"),
        lambda record: record.update(surprise=1),
        lambda record: record["rules"][0].update(status="green"),
        lambda record: record["metrics"]["defect_rate"].pop("unit"),
    ],
)
def test_the_schema_refuses_a_broken_record(tmp_path: Path, break_it: Any) -> None:
    record = json.loads(json_record.render(make_run(tmp_path, Verdict.FAIL, 3)))
    break_it(record)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, json.loads(PUBLISHED.read_text(encoding="utf-8")))


def test_numbers_that_json_cannot_say_and_lone_surrogates_do_not_lose_the_record(tmp_path: Path) -> None:
    result = make_run(tmp_path, Verdict.PASS, 0).model_copy(
        update={"environment": {"a": float("nan"), "b": [float("-inf")], "c\ud800": "\ud83d\ude00 \udc00"}}
    )
    (tmp_path / "result.json").write_text(json_record.render(result), encoding="utf-8")
    assert Result.load(tmp_path).environment == {"a": "nan", "b": ["-inf"], "c\ufffd": "\U0001f600 \ufffd"}
