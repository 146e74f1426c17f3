"""What a plan is made from: the modes to choose from, and what is known already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from mansard.analytics.decide.modes import ModeFrame
    from mansard.analytics.decide.plan import Observed

_ANY_DEVICE = "this board"


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is asked for."""

    runs: Path | None
    modes: str
    n_next: int
    minimise: Literal["energy", "latency", "edp", "power"]
    max_latency_s: float | None
    network: str | None
    device: str | None
    board: Path | None
    mix: bool


@dataclass(frozen=True, eq=False)
class PlanInputs:
    """``are_named``: the board knows the candidates by their names."""

    candidates: ModeFrame
    are_named: bool
    known: Known | None  # None where no folder was named


@dataclass(frozen=True, eq=False)
class Known:
    """What a folder holds of one device. ``is_cpu``: it is the CPU of a machine with a GPU."""

    observed: Observed
    is_cpu: bool
    notes: tuple[str, ...]


def read_inputs(request: PlanRequest) -> PlanInputs:
    """Everything that a plan needs; raises UsageError, InputError, StorageError, DeviceError."""
    from mansard.cli.mode_choice import wanted_modes

    _check(request)
    known = None if request.runs is None else _known(request, request.runs)
    device = _ANY_DEVICE if known is None else known.observed.device
    candidates, are_named = wanted_modes(request.modes, request.board, device)
    return PlanInputs(candidates, are_named, known)


def _check(request: PlanRequest) -> None:
    from mansard.core.errors import UsageError

    for option, value in (("--network", request.network), ("--device", request.device)):
        if value is not None and request.runs is None:
            raise UsageError(f"{option} is of runs", fix="name the folder of the runs as well")


def _known(request: PlanRequest, runs: Path) -> Known:
    from mansard.analytics.data.names import device_labels
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.decide.plan import observed
    from mansard.analytics.predict.prediction import predict

    dataset = open_runs([runs], mix=request.mix)
    allowed = predict(dataset, fill_gaps=False)
    found = observed(
        allowed.models.modes,
        allowed.models.observations,
        allowed.predictions,
        device=request.device,
        network=request.network,
    )
    labels = device_labels(dataset.manifests)
    ours = [each for each in dataset.manifests if labels[each.run_id] == found.device]
    # Without being told, bench measures the GPU of such a machine.
    is_cpu = any(each.gpu is None and each.machine.kind != "cpu" for each in ours)
    return Known(found, is_cpu, (*dataset.notes, *found.notes))
