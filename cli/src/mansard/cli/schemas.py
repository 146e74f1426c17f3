"""``mansard data schema``: the JSON Schema of what a command prints with ``--json``.

It is made of the types of the records, so it is that of the version that is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from mansard.api import command_line
from mansard.cli.json_output import SCHEMA_VERSION, ErrorDocument
from mansard.cli.options import JsonOption
from mansard.core.errors import UsageError


def schema(
    name: Annotated[str, typer.Argument(help="Name of the output, such as recommend or error.")],
    as_json: JsonOption = False,
) -> None:
    """Print the JSON Schema of what a command prints with --json.

    NAME is the field "schema" of that output, with or without "mansard/".
    """
    del as_json  # a schema is JSON
    types, name = output_types(), name.removeprefix("mansard/")
    if name not in types:
        raise UsageError(f"there is no schema {name!r}", fix=f"use one of {', '.join(types)}")
    sys.stdout.buffer.write(encoded(json_schema(name, types[name])))


def output_types() -> dict[str, Any]:
    """What each output is, in the order of their names: a record, or fields with their types."""
    types = command_line.output_types()
    types["score"] = {**types["score"], "errors": tuple[ErrorDocument, ...]}
    return dict(sorted({**types, "error": {"error": ErrorDocument}}.items()))


def json_schema(name: str, fields: Any) -> dict[str, Any]:
    """The schema of the output ``name``, which has an ``error`` where it is not whole."""
    record = msgspec.defstruct("Output", [*fields.items()]) if isinstance(fields, dict) else fields
    types = [record] if name == "error" else [record, ErrorDocument]
    (output, *error), components = msgspec.json.schema_components(
        types, ref_template="#/$defs/{name}", schema_hook=_path_schema
    )
    whole = components.pop(output["$ref"].rpartition("/")[2])
    for part in (whole, *components.values()):
        if part.get("type") == "object" and "properties" in part:
            part["required"] = list(part["properties"])  # msgspec writes fields with defaults too
    head = {"schema": {"const": f"mansard/{name}"}, "version": {"const": SCHEMA_VERSION}}
    properties = {**head, **whole["properties"]}
    if error:
        properties["error"] = error[0]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"mansard/{name}",
        "type": "object",
        "properties": properties,
        "required": ["schema", "version", *whole["required"]],
        "$defs": dict(sorted(components.items())),
    }


def _path_schema(kind: type[Any]) -> dict[str, Any]:
    if issubclass(kind, Path):
        return {"type": "string"}
    raise NotImplementedError(kind)


def encoded(schema: dict[str, Any]) -> bytes:
    """As the command prints it."""
    return msgspec.json.format(msgspec.json.encode(schema)) + b"\n"
