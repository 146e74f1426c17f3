"""Kinds of measurements, an open set: a room adds one with a ``MeasurementKind`` in a module.

A plan names its kind by where that is defined ("mansard.microbench.trial:KERNELS"), and so does
the line of a job; the measuring process imports it by that name. So this room imports no room
above it, and a kind that is made up in a test runs like any other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from mansard.core.errors import SchemaError
from mansard.core.processes.line_channel import DECODE_ERRORS, encode_line
from mansard.core.records import Gpu, PowerMode, Record
from mansard.measuring.instruments import Instruments
from mansard.measuring.plan import RunPlan

RowT = TypeVar("RowT", bound=Record)
PlanT = TypeVar("PlanT", bound=RunPlan)


@dataclass(frozen=True)
class Opened(Generic[RowT]):
    """A kind that is ready to measure in this process."""

    # A trial of the plan, what it is watched and metered with -> its row, which has the fields
    # run_id and trial_id. Raises DeviceError or MeasurementError.
    measure: Callable[[Any, Instruments], RowT]
    gpu: Gpu | None  # as it is in this mode
    why_no_gpu: str  # empty where there is a GPU


@dataclass(frozen=True)
class MeasurementKind(Generic[PlanT, RowT]):
    """One kind of measurement: what its plans and rows are, and how a trial is made."""

    name: str  # of the runs of this kind, in their manifests
    plan_type: type[PlanT]
    row_type: type[RowT]
    open: Callable[[PlanT], AbstractContextManager[Opened[RowT]]]
    rows_name: str = "trials.jsonl"  # the file of the rows in a run's folder
    is_private: bool = False  # whether only this user may read that file
    # Whether a row is a result. One that is none is kept until the same plan is run again: then
    # its trial is measured anew.
    is_result: Callable[[RowT], bool] = lambda _: True
    # The row of a trial in which the measuring process crashed, by the plan, the trial, how it
    # ended, and the seconds until then. None: such a crash ends the run.
    crashed: Callable[[PlanT, Any, str, float], RowT] | None = None
    # Of one trial, far more than it has: who reads them from a container takes no more.
    most_events: int = 100
    is_metered: bool = True  # False: its trials have no energy, and nothing is measured idle


class Job(Record, frozen=True, kw_only=True):
    """What a measuring process is to do: the trials of a plan that are not on disk yet."""

    plan: RunPlan
    missing: tuple[str, ...]  # ids of trials
    read_back: PowerMode  # the mode that the machine is in


class _JobLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job as it crosses a pipe: the kind says how its plan is to be read."""

    kind: str
    plan: msgspec.Raw
    missing: tuple[str, ...]
    read_back: PowerMode


def find_kind(path: str) -> MeasurementKind[Any, Any]:
    """The kind defined at ``module:name``; raises SchemaError where there is none."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise SchemaError(f"no kind of measurement is at {path!r}: {error}") from error
    if not isinstance(found, MeasurementKind):
        raise SchemaError(f"{path!r} is not a kind of measurement")
    return found


def encode_job(job: Job) -> bytes:
    """A job as one line, its end included."""
    plan = msgspec.Raw(msgspec.json.encode(job.plan))
    return encode_line(_JobLine(job.plan.kind, plan, job.missing, job.read_back))


def decode_job(line: bytes) -> Job:
    """The job of a line; raises SchemaError."""
    try:
        found = msgspec.json.decode(line, type=_JobLine)
        plan = msgspec.json.decode(found.plan, type=find_kind(found.kind).plan_type)
    except DECODE_ERRORS as error:
        raise SchemaError(f"cannot read the job: {error}") from error
    return Job(plan=plan, missing=found.missing, read_back=found.read_back)
