"""The JSON Schema of what every command prints with ``--json``, from the types of its records.

The files that ship, ``cli/src/mansard/cli/schemas/*.json``, are written from here; a test compares.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec
import polars as pl

from mansard import api
from mansard.analytics.decisions.batches import BATCH_SCHEMA
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.api.images import ImageList
from mansard.api.networks import MeasuredNetwork
from mansard.api.plans import PlanAnswer
from mansard.api.schedules import ScheduleAnswer
from mansard.api.sweeps import DryRun
from mansard.cli.json_output import ErrorDocument
from mansard.containers.images.building import Built
from mansard.containers.images.fitting import Fit
from mansard.containers.images.store import Archive
from mansard.core.records import BoardSample, EngineBuild, ModelScore, PowerMode, ProgramRun
from mansard.device.holding.restoring import Restored
from mansard.device.power_modes.listing import ListedMode
from mansard.device.tegrastats.sample import Rail, TegrastatsSample
from mansard.estimator.zoo import Entry
from mansard.measuring.manifest import ContainerImage

VERSION = 1
Fields = Mapping[str, Any]  # of an output: each name with its type


class _Board(msgspec.Struct):
    board: str | None
    restored: Restored | None
    lines: tuple[str, ...]


class _Program(msgspec.Struct):
    mode: PowerMode
    run: ProgramRun
    times: tuple[api.ProgramTimes, ...]


class _Score(msgspec.Struct):
    score: ModelScore
    totals: api.Totals


def _rows(name: str, columns: Mapping[str, Any]) -> type[msgspec.Struct]:
    """A row of a frame: its columns, each of which may be null."""
    kinds = {pl.Float64: float, pl.Int64: int, pl.String: str, pl.Boolean: bool}
    fields = [(name, kinds[column] | None) for name, column in columns.items()]
    return msgspec.defstruct(name, fields)


def _like(record: type[msgspec.Struct], *, without: tuple[str, ...] = (), **more: Any) -> Any:
    """The fields of ``record`` but some, with others."""
    fields: list[tuple[str, Any]] = [
        (each.name, each.type)
        for each in msgspec.structs.fields(record)
        if each.name not in {*without, *more}
    ]
    return msgspec.defstruct(record.__name__, [*fields, *more.items()])


def _many(kind: Any) -> Any:
    """A list of what mypy takes for a variable."""
    return GenericAlias(tuple, (kind, ...))


# Their records have types that are imported for type checkers alone: a command starts faster so.
_LAZY = ("data", "counters", "counter_runs", "schedules", "plans")


@cache
def _import_types() -> None:
    """Give the modules of _LAZY the names that their annotations have."""
    for name in _LAZY:
        module = importlib.import_module(f"mansard.api.{name}")
        for node in ast.parse(Path(str(module.__file__)).read_text("utf-8")).body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                exec(compile(ast.unparse(ast.Module(node.body, [])), name, "exec"), vars(module))  # noqa: S102


def outputs() -> dict[str, Fields | type[Any]]:
    """What each schema is of: a record, or fields."""
    _import_types()
    facts = _like(Entry, dims=dict[str, int])
    listed = _like(
        ListedMode,
        **{
            each.name: each.type | None
            for each in msgspec.structs.fields(ListedMode)
            if each.name not in {"mode", "resolved_from"}
        },
    )
    sample = _like(
        TegrastatsSample,
        without=("prefix", "shape", "rail_names", "powers_w", "averages_w", "maximums_w"),
        log=str,
        time=str,
        time_s=float | None,
        rails=tuple[Rail, ...],
    )
    figures = {"their_flop": pl.Int64, "their_bytes": pl.Int64, "our_flop": pl.Int64}
    ours = {"our_bytes": pl.Int64, "our_fused_bytes": pl.Int64}
    texts, key = tuple[str, ...], {"network": pl.String, "batch": pl.Int64}
    seconds = ("measured_s", "measured_w", "least_fp32_s", "least_tf32_s", "estimate_s")
    measured = dict.fromkeys((*seconds, "estimate_w"), pl.Float64)
    return {
        "batch": {"batches": _many(_rows("Batch", BATCH_SCHEMA))},
        "compare": api.Compared,
        "contention": {"victims": tuple[api.VictimContention, ...]},
        "demo-pagoda": {
            "page": Path,
            "counts": _many(_rows("Count", {**key, **figures, **ours})),
            "points": _many(
                _rows("Point", {**key, **measured, "remark": pl.String, **figures, **ours})
            ),
            "findings": texts,
        },
        "doctor": {"checks": tuple[api.Check, ...]},
        "dry-run": {"boards": tuple[DryRun, ...]},
        "error": {"error": ErrorDocument},
        "export": api.Exported,
        "hi": Hierarchical,
        "image-build": Built,
        "image-fit": Fit,
        "image-libraries": {"libraries": texts},
        "image-list": ImageList,
        "image-load": {"image": ContainerImage},
        "image-save": Archive,
        "import": {"tables": tuple[api.ImportedTable, ...]},
        "measure": {
            "times": tuple[api.NetworkTimes, ...],
            "accuracies": tuple[api.NetworkAccuracy, ...],
            "rows": tuple[MeasuredNetwork, ...],
            "memory": tuple[api.MemoryTraffic, ...],
            "builds": tuple[EngineBuild, ...],
            "parts": tuple[api.PartTimes, ...],
            "sums": tuple[api.PartSum, ...],
            "groups": tuple[api.GroupTimes, ...],
            "files": texts,
        },
        "measure-program": {"programs": tuple[_Program, ...]},
        "merge": {"place": str, "n_new": int, "n_grown": int, "n_same": int},
        "modes": {
            "machine": str | None,
            "where": str | None,
            "is_simulated": bool | None,
            **dict.fromkeys(("soc", "module", "default", "present"), str | None),
            "modes": _many(listed),
            "notes": texts,
            "ignored": texts,
        },
        "multi": {"rows": tuple[api.MeasuredMulti, ...], "files": texts},
        "ncu-check": {"networks": tuple[api.CheckedNetwork, ...]},
        "ncu-import": {"exports": tuple[api.ImportedExport, ...]},
        "ncu-run": {"networks": tuple[api.CountedNetwork, ...]},
        "plan": {"plans": tuple[PlanAnswer, ...]},
        "recommend": {
            "recommendations": tuple[api.Recommendation, ...],
            "mixes": tuple[api.MixAnswer, ...],
        },
        "report": {"report": Path, "summary": api.Summary},
        "restore": {"boards": tuple[_Board, ...]},
        "schedule": ScheduleAnswer,
        "score": {"scores": tuple[_Score, ...], "errors": tuple[ErrorDocument, ...]},
        "telemetry": {"summaries": tuple[api.LogSummary, ...]},
        "telemetry-samples": {"samples": _many(sample)},
        "watch": BoardSample,
        "zoo-list": {"networks": _many(facts)},
        "zoo-show": {"network": facts, "score": ModelScore},
        "zoo-write": {"files": texts},
    }


@cache
def schemas() -> dict[str, dict[str, Any]]:
    """The schema of each output, ready to be written."""
    return {name: _schema(name, fields) for name, fields in outputs().items()}


def _schema(name: str, fields: Fields | type[Any]) -> dict[str, Any]:
    record = msgspec.defstruct("Output", [*fields.items()]) if isinstance(fields, dict) else fields
    types = [record] if name == "error" else [record, ErrorDocument]
    (own, *error), components = msgspec.json.schema_components(
        types, ref_template="#/$defs/{name}", schema_hook=_path_schema
    )
    whole = components.pop(own["$ref"].rpartition("/")[2])
    for part in (whole, *components.values()):
        if part.get("type") == "object" and "properties" in part:
            part["required"] = list(part["properties"])  # msgspec writes fields with defaults too
    head = {"schema": {"const": f"mansard/{name}"}, "version": {"const": VERSION}}
    properties = {**head, **whole["properties"]}
    if error:
        properties["error"] = error[0]  # of a result that is not whole
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
    """As it stands in the file."""
    return msgspec.json.format(msgspec.json.encode(schema)) + b"\n"
