"""A run as a whole: its manifest."""

from __future__ import annotations

from typing import ClassVar

from mansard.core.records.base import Record, Schema
from mansard.core.records.machine import Gpu, MachineIdentity, PowerMode
from mansard.core.records.trial import EnergyWindow


class Manifest(Record, frozen=True, kw_only=True):
    """What a run was: enough to repeat it, and to refuse mixing it with another."""

    schema: ClassVar[Schema] = Schema("manifest", 8, oldest=6)

    run_id: str
    kind: str  # name of its MeasurementKind
    tool_version: str
    commit: str | None
    versions: dict[str, str]  # of everything that can change a timing
    machine: MachineIdentity
    mode_requested: PowerMode
    mode_read_back: PowerMode
    plan_hash: str
    profile: str
    n_trials: int
    meters: tuple[str, ...]
    meters_missing: dict[str, str]  # meter -> what is missing and what to do
    total_rails: tuple[str, ...] | None  # which are added to the total
    total_rule: str | None  # the same in words, with what it leaves out
    boundary: str | None  # what the total covers: module, board input, CPU package
    idle: tuple[EnergyWindow, ...] | None  # in the mode, nothing running: before, between, after
    gpu: Gpu | None  # that the kernels ran on, as CUDA describes it
    image: str | None  # of the container that they ran in, by its name
    image_digest: str | None
    seed: int
    started_utc: str
    finished_utc: str | None
    started_monotonic_s: float
    finished_monotonic_s: float | None
    label: str = ""  # of a build or commit, part of the run's identity
    host: str = ""  # that --host gave the board, without a user's name; empty: measured on itself
