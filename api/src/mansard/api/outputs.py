"""What every command prints with ``--json``: of each output the types of its fields.

``cli/schemas.py`` makes a JSON Schema of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import GenericAlias
from typing import Any

import msgspec

from mansard.analytics.data.accuracies import NetworkAccuracy
from mansard.analytics.decisions.batches import BATCH_SCHEMA
from mansard.analytics.decisions.fitting import MemoryFit
from mansard.analytics.decisions.mix_records import MixAnswer
from mansard.analytics.decisions.offload.records import Hierarchical, MeasuredOffload
from mansard.analytics.decisions.records import Recommendation
from mansard.analytics.models.contention import VictimContention
from mansard.analytics.models.counters.check import CheckedNetwork
from mansard.analytics.models.layers.rows import RoofedLayers
from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.analytics.models.predict.group_times import GroupTimes
from mansard.analytics.models.predict.memory_use import MemoryTraffic
from mansard.analytics.models.predict.parts import PartSum, PartTimes
from mansard.analytics.models.predict.row_times import NetworkTimes, ProgramTimes
from mansard.analytics.pages.report.summary import Summary
from mansard.api import counters, data
from mansard.api.checks import Check
from mansard.api.deciding import plans, schedules
from mansard.api.images import ImageList
from mansard.api.measurements import MeasuredMulti, MeasuredNetwork
from mansard.containers.images.building import BuiltImage
from mansard.containers.images.fitting import FittingImage
from mansard.containers.images.store import Archive
from mansard.core.records import (
    BoardSample,
    EngineBuild,
    GenerationRun,
    ModelScore,
    PowerMode,
    ProgramRun,
    ServedNetwork,
)
from mansard.device.holding.restoring import Restored
from mansard.device.power_modes.listing import ListedMode
from mansard.device.tegrastats.sample import Rail, TegrastatsSample
from mansard.device.tegrastats.summary import LogSummary
from mansard.estimator.export import Exported
from mansard.estimator.summary import Totals
from mansard.estimator.zoo import Entry
from mansard.measuring.manifest import ContainerImage
from mansard.sweeps.builds import BuiltFile
from mansard.sweeps.sweep import DryRun


class _Board(msgspec.Struct):
    board: str | None
    restored: Restored | None
    lines: tuple[str, ...]


class _Program(msgspec.Struct):
    mode: PowerMode
    run: ProgramRun
    times: tuple[ProgramTimes, ...]


class _Generation(msgspec.Struct):
    mode: PowerMode
    run: GenerationRun
    times: GenerationTimes


class _Score(msgspec.Struct):
    score: ModelScore
    totals: Totals


def _rows(name: str, columns: Mapping[str, Any]) -> Any:
    """Rows of a frame: its columns, each of which may be null."""
    kinds = {"Float64": float, "Int64": int, "String": str, "Boolean": bool}
    fields = [(name, kinds[str(column)] | None) for name, column in columns.items()]
    return _many(msgspec.defstruct(name, fields))


def _like(record: type[msgspec.Struct], *, without: tuple[str, ...] = (), **more: Any) -> Any:
    """The fields of ``record`` but some, with others."""
    fields: list[tuple[str, Any]] = [
        (field.name, field.type)
        for field in msgspec.structs.fields(record)
        if field.name not in {*without, *more}
    ]
    return msgspec.defstruct(record.__name__, [*fields, *more.items()])


def _many(kind: Any) -> Any:
    """A list of what mypy takes for a variable."""
    return GenericAlias(tuple, (kind, ...))


def output_types() -> dict[str, Any]:
    """What each output is: a record, or fields with their types."""
    facts = _like(Entry, dims=dict[str, int])
    listed = _like(
        ListedMode,
        **{
            field.name: field.type | None
            for field in msgspec.structs.fields(ListedMode)
            if field.name not in {"mode", "resolved_from"}
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
    texts = tuple[str, ...]
    return {
        "batch": {"batches": _rows("Batch", BATCH_SCHEMA)},
        "build": {"files": tuple[BuiltFile, ...]},
        "compare": data.Compared,
        "contention": {"victims": tuple[VictimContention, ...]},
        "doctor": {"checks": tuple[Check, ...]},
        "dry-run": {"boards": tuple[DryRun, ...]},
        "export": Exported,
        "figure": {"files": tuple[Path, ...], "caption": str},
        "fit": {"fits": tuple[MemoryFit, ...]},
        "image-build": BuiltImage,
        "image-fit": FittingImage,
        "image-libraries": {"libraries": texts},
        "image-list": ImageList,
        "image-load": {"image": ContainerImage},
        "image-save": Archive,
        "import": {"tables": tuple[data.ImportedTable, ...]},
        "layers": {"networks": tuple[RoofedLayers, ...]},
        "measure": {
            "times": tuple[NetworkTimes, ...],
            "accuracies": tuple[NetworkAccuracy, ...],
            "rows": tuple[MeasuredNetwork, ...],
            "memory": tuple[MemoryTraffic, ...],
            "builds": tuple[EngineBuild, ...],
            "parts": tuple[PartTimes, ...],
            "sums": tuple[PartSum, ...],
            "groups": tuple[GroupTimes, ...],
        },
        "measure-program": {"programs": tuple[_Program, ...]},
        "measure-server": {"generations": tuple[_Generation, ...]},
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
        "multi": {"rows": tuple[MeasuredMulti, ...]},
        "ncu-check": {"networks": tuple[CheckedNetwork, ...]},
        "ncu-import": {"exports": tuple[counters.ImportedExport, ...]},
        "ncu-run": {"networks": tuple[counters.CountedNetwork, ...]},
        "offload-run": {"measured": tuple[MeasuredOffload, ...]},
        "offload-tune": Hierarchical,
        "offload-serve": {"address": str, "served": ServedNetwork},
        "plan": {"plans": tuple[plans.PlanAnswer, ...]},
        "recommend": {
            "recommendations": tuple[Recommendation, ...],
            "mixes": tuple[MixAnswer, ...],
        },
        "report": {"report": Path, "summary": Summary},
        "restore": {"boards": tuple[_Board, ...]},
        "schedule": schedules.ScheduleAnswer,
        # "errors" holds what the command line prints of an error: it adds that type.
        "score": {"scores": tuple[_Score, ...]},
        "telemetry": {"summaries": tuple[LogSummary, ...]},
        "telemetry-samples": {"samples": _many(sample)},
        "watch": BoardSample,
        "models-list": {"networks": _many(facts)},
        "models-show": {"network": facts, "score": ModelScore},
        "models-write": {"files": texts},
    }
