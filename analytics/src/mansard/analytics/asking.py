"""Predictions of the networks and modes that somebody asks about, from what a dataset knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.names import network_names
from mansard.analytics.models import Models, find_models
from mansard.analytics.predict.calibration_totals import TotalsCalibration, calibrate_totals
from mansard.analytics.predict.networks import predict_layers, with_observed
from mansard.analytics.predict.scores import score_frame
from mansard.analytics.predict.totals_apply import apply_totals
from mansard.analytics.scaling.board import scale
from mansard.core.errors import InputError, UsageError
from mansard.core.records import ModelScore, Phase


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Which rows of networks whose times are known count: of one network, or of all (None).

    No batches or precisions means any of them.
    """

    network: str | None = None
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    phase: Phase = "inference"

    def keeps(self) -> pl.Expr:
        """Of a frame with the columns network, batch, precision and phase."""
        keep = pl.col("phase") == self.phase
        if self.batches:
            keep &= pl.col("batch").is_in(list(self.batches))
        if self.precisions:
            keep &= pl.col("precision").is_in(list(self.precisions))
        return keep


@dataclass(frozen=True, eq=False)
class Known:
    """A dataset with its models, and the devices that a question is about."""

    dataset: Dataset
    models: Models
    devices: tuple[str, ...]

    def networks(self) -> frozenset[str]:
        """Networks whose times were measured or published."""
        return frozenset(self.models.observations["network"].to_list())

    def mode_names(self) -> tuple[str, ...]:
        """The modes that were measured or published, each name once."""
        return tuple(dict.fromkeys(_of(self.models.modes, self.devices)["mode"].to_list()))

    def modes_named(self, text: str) -> dict[str, pl.DataFrame] | None:
        """Of each device the modes that ``text`` names, with commas; None where it means others."""
        names = [part.strip() for part in text.split(",")]
        if not set(names) <= set(self.mode_names()):
            return None
        chosen = self.models.modes.filter(pl.col("mode").is_in(names))
        return {name: chosen.filter(pl.col("device") == name) for name in self.devices}


@dataclass(frozen=True, eq=False)
class Predicted:
    """Frames of ``data.model_frames``; ``scores`` is a SCORE_SCHEMA of ``predict.scores``.

    ``notes``: of a calibration, how far it is off before and after.
    """

    modes: pl.DataFrame
    coefficients: pl.DataFrame
    scores: pl.DataFrame
    predictions: pl.DataFrame
    notes: tuple[str, ...]


def find_known(dataset: Dataset, device: str | None = None) -> Known:
    """What is known of all devices, or of those whose name is or holds ``device``.

    Raises UsageError where there is no such device.
    """
    models = find_models(dataset)
    devices = tuple(dict.fromkeys(models.modes["device"].to_list()))
    if device is None:
        return Known(dataset, models, devices)
    chosen = [name for name in devices if name == device] or [
        name for name in devices if device.casefold() in name.casefold()
    ]
    if not chosen:
        raise UsageError(f"no device is called {device!r}", fix=f"there are {', '.join(devices)}")
    return Known(dataset, models, tuple(chosen))


def predict_known(
    known: Known,
    scores: Sequence[ModelScore] | None,
    measured: Sequence[Measured],
    wanted: Mapping[str, pl.DataFrame] | None = None,
    *,
    calibrate: bool = False,
) -> Predicted:
    """Time, energy and power of networks in modes, on every device of ``known``.

    ``scores``: of the networks; None means those of the dataset that ``measured`` keeps.
    ``wanted``: MODE_SCHEMA rows by device; None means the modes that are known. Devices with
    roofs predict every score; what no roof predicts, but is known in some modes, is fitted to
    those times. ``calibrate``: scale the predictions to the measured networks of the dataset.
    Raises InputError where nothing can be predicted, or nothing was measured to calibrate by.
    """
    modes = _of(known.models.modes, known.devices)
    asked = modes if wanted is None else pl.concat([modes.clear(), *wanted.values()])
    coefficients = scale(modes, _of(known.models.coefficients, known.devices), asked)
    layers = _layers(known, scores, measured)
    names = network_names(known.dataset) if scores is None else None
    shown = score_frame(layers, names)
    roofed = predict_layers(layers, shown, coefficients, asked)
    notes: tuple[str, ...] = ()
    if calibrate:
        totals = _calibration(known, layers, names, modes)
        roofed = apply_totals(roofed, totals, coefficients)
        notes = (_calibration_words(totals),)
    predictions = with_observed(roofed, _observed(known, measured), modes, asked)
    if predictions.is_empty():
        raise InputError(
            "there is nothing to predict: no roof with a scored network, and no times of one",
            where=", ".join(known.dataset.places),
            fix="name a network, measure with 'mansard bench', or import with 'mansard import'",
        )
    return Predicted(asked, coefficients, shown, predictions, notes)


def _calibration(
    known: Known, layers: pl.DataFrame, names: dict[str, str] | None, modes: pl.DataFrame
) -> TotalsCalibration:
    """By all networks of the dataset that were measured; lines for those asked for as well."""
    every = pl.concat([layers, known.dataset.layers]).unique(
        ["score_id", "index"], keep="first", maintain_order=True
    )
    coefficients = scale(modes, _of(known.models.coefficients, known.devices), modes)
    predictions = predict_layers(every, score_frame(every, names), coefficients, modes)
    return calibrate_totals(predictions, _of(known.models.observations, known.devices))


def _calibration_words(totals: TotalsCalibration) -> str:
    unseen = totals.unseen_networks
    rest = "" if unseen is None else f", {unseen.median:.1%} on networks it was not fitted to"
    return (
        f"calibrated by {totals.before.n_totals} measured times: median error "
        f"{totals.before.median:.1%} before, {totals.after.median:.1%} after{rest}"
    )


def _of(frame: pl.DataFrame, devices: Sequence[str]) -> pl.DataFrame:
    return frame.filter(pl.col("device").is_in(list(devices)))


def _layers(
    known: Known, scores: Sequence[ModelScore] | None, measured: Sequence[Measured]
) -> pl.DataFrame:
    if scores is not None:
        return layer_frame(scores)
    return known.dataset.layers.filter(pl.any_horizontal([each.keeps() for each in measured]))


def _observed(known: Known, measured: Sequence[Measured]) -> pl.DataFrame:
    rows = _of(known.models.observations, known.devices)
    kept = [
        rows.filter(
            each.keeps(),
            pl.lit(value=True) if each.network is None else pl.col("network") == each.network,
        )
        for each in measured
    ]
    return pl.concat(kept).unique(maintain_order=True) if kept else rows.clear()
