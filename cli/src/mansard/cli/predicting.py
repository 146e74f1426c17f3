"""From runs and networks to predictions: what ``recommend`` and ``batch`` have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.cli.console import note

if TYPE_CHECKING:
    from mansard.analytics.decide.modes import ModeFrame
    from mansard.analytics.predict.prediction import Prediction
    from mansard.core.records import Phase


@dataclass(frozen=True, kw_only=True)
class Network:
    """An ONNX file (or a folder of them), or the name of one of the zoo or that was measured.

    ``batches``: 1 where there is none; ``precisions``: the file's own where there is none.
    """

    name: str
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()


def named_networks(
    names: Sequence[str] | None, batches: tuple[int, ...], precisions: tuple[str, ...]
) -> tuple[Network, ...]:
    """The networks of a command line, all at the same batches and precisions."""
    return tuple(Network(name=name, batches=batches, precisions=precisions) for name in names or ())


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which networks, and in which modes. What is empty or None is left open.

    ``networks``: none means all that the runs have scores or times of, of which ``batches`` and
    ``precisions`` keep some. ``modes``: as ``bench --mode`` takes them, or a table; None means
    those that were measured. ``device``: part of a name. ``may_mix``: see ``open_runs``.
    """

    runs: tuple[str, ...]
    networks: tuple[Network, ...] = ()
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    phase: Phase = "inference"
    modes: str | None = None
    device: str | None = None
    board: Path | None = None
    may_mix: bool = False
    calibrate: bool = False


def predict_asked(asked: Asked) -> Prediction:
    """The predictions of what was asked for; notes go to stderr.

    Raises as reading and scoring do, and UsageError for unknown networks, modes or devices.
    """
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.predict.models import find_models
    from mansard.analytics.predict.prediction import predict
    from mansard.cli.boards import board_root
    from mansard.cli.mode_choice import wanted_modes
    from mansard.cli.predicting_networks import find_networks

    board_root(asked.board)  # a root that is no folder is said, wherever it is needed
    models = find_models(open_runs(asked.runs, mix=asked.may_mix), asked.device)
    for line in models.dataset.notes:
        note(f"note: {line}")
    modes: ModeFrame | list[ModeFrame] | None = None
    if asked.modes is not None:
        modes = models.modes_named(asked.modes)
    if asked.modes is not None and modes is None:
        modes = [wanted_modes(asked.modes, asked.board, name)[0] for name in models.devices]
    networks = find_networks(asked, models.observed_networks())
    prediction = predict(models, networks, modes, calibrate=asked.calibrate).check_any()
    for line in prediction.notes:
        note(line)
    return prediction
