"""The JSON Schema of ``result.json``, made from the model that writes it.

``python -m gate.report.schema`` prints it; ``docs/schemas/result-1.schema.json`` is that text.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from gate.result import SCHEMA, Result

__all__ = ["schema", "text"]


def schema() -> dict[str, Any]:
    """The schema, draft 2020-12, of a written record: every field is present and no other is allowed."""
    made = Result.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:gate:result:1", **made, "title": SCHEMA}


def text() -> str:
    """The schema as the published file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
