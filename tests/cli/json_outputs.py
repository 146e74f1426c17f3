"""Whether what a command printed keeps to its schema: all that our tests print."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema
import msgspec

from mansard.cli.schemas import json_schema, output_types

_START = re.compile(r'\{\s*"schema":\s*"mansard/')
_LARGEST = 2_000_000  # characters: checking takes a second for each million


def check_output(text: str) -> str | None:
    """The name of the schema of ``text``, which has to keep to it; None where it has none."""
    if _START.match(text) is None or len(text) > _LARGEST:
        return None
    documents = text.splitlines() if text.startswith('{"') and "\n" in text[:-1] else [text]
    try:
        return {check_document(json.loads(each)) for each in documents}.pop()
    except json.JSONDecodeError:  # one whose list came in lines
        return check_document(json.loads(text))


def check_document(document: dict[str, Any]) -> str:
    """The name of the schema of ``document``, which has to be as its schema says."""
    name = str(document["schema"]).removeprefix("mansard/")
    for fault in _validator(name).iter_errors(document):
        where = "/".join(map(str, fault.absolute_path))
        raise AssertionError(f"{name}: {where}: {fault.message[:300]}")
    return name


@cache
def _validator(name: str) -> Any:
    """Refuses also what the schema does not name: a field that was forgotten there."""
    schema: dict[str, Any] = msgspec.to_builtins(json_schema(name, output_types()[name]))
    jsonschema.Draft202012Validator.check_schema(schema)
    for part in (schema, *schema["$defs"].values()):
        if "properties" in part:
            part["additionalProperties"] = False
    return jsonschema.Draft202012Validator(schema)
