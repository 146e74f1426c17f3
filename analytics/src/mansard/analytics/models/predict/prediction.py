"""The one prediction: networks in modes, from what a dataset knows.

Recommendations, batch sizes, plans and the report ask ``predict``. A network with scores is
predicted by the roofs of each mode; one of which only times are known is fitted to these times.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.model_frames import PREDICTION_KEY, PREDICTION_SCHEMA
from mansard.analytics.data.names import network_names, stage_columns
from mansard.analytics.data.scores import score_id
from mansard.analytics.models.predict.board_transfer import (
    TRANSFER_SCHEMA,
    Transfers,
    called,
    transfer_times,
)
from mansard.analytics.models.predict.calibration_gap import calibration_gap
from mansard.analytics.models.predict.engine import predict_scores
from mansard.analytics.models.predict.groups import group_frame, score_frame
from mansard.analytics.models.predict.language_stages import with_added_parts
from mansard.analytics.models.predict.models import Models, find_models
from mansard.analytics.models.predict.operator_shapes import group_shapes
from mansard.analytics.models.predict.timed_layers import predict_by_classes, timed_networks
from mansard.analytics.models.predict.timed_shapes import fit_timed_shapes, predict_by_shapes
from mansard.analytics.models.predict.totals_calibration import (
    NO_SHAPES,
    Calibration,
    apply_totals,
    calibrate_totals,
    place_name,
)
from mansard.analytics.models.scaling.board import scale
from mansard.analytics.models.scaling.network_predict import predict_observed
from mansard.core.errors import InputError
from mansard.core.records import ModelScore, Phase

NO_TRANSFERS = Transfers(pl.DataFrame(schema=TRANSFER_SCHEMA), ())
# Predictions at a time, about 1 kB each until they are decided on. Fewer rows cost more time: each
# part is planned and joined anew.
_MOST_ROWS = 300_000


@dataclass(frozen=True, kw_only=True)
class NetworkSelection:
    """A network to predict, or all networks of a dataset.

    ``name``: how predictions call it; None: every network. ``scores``: of its graph; None: those
    that the dataset has; empty: only its known times count. Of the dataset's scores and times those
    of these batches, precisions and phase are taken; empty or None: any.
    """

    name: str | None = None
    scores: Sequence[ModelScore] | None = None
    batches: tuple[int, ...] = ()
    precisions: tuple[str, ...] = ()
    phase: Phase | None = "inference"

    def keeps(self, name: str) -> pl.Expr:
        """Of a frame with batch, precision, phase and, in the column ``name``, the network."""
        keep = pl.lit(value=True)
        if self.name is not None:
            keep &= pl.col(name) == self.name
        if self.phase is not None:
            keep &= pl.col("phase") == self.phase
        if self.batches:
            keep &= pl.col("batch").is_in(list(self.batches))
        if self.precisions:
            keep &= pl.col("precision").is_in(list(self.precisions))
        return keep


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """Networks in modes, with what the prediction rests on.

    ``modes``, ``coefficients``, ``groups`` and ``predictions``: frames of ``data.model_frames``;
    ``scores``: SCORE_SCHEMA of ``predict.groups``. ``calibration``: by what the predictions were
    scaled; empty where they were not.
    """

    models: Models
    modes: pl.DataFrame
    coefficients: pl.DataFrame
    groups: pl.DataFrame
    scores: pl.DataFrame
    predictions: pl.DataFrame
    calibration: Calibration
    transfers: Transfers = NO_TRANSFERS

    @property
    def notes(self) -> tuple[str, ...]:
        """By what calibrated predictions were scaled, and how far off they are."""
        return (*_notes(self.calibration), *self.transfers.notes)

    def to_frame(self) -> pl.DataFrame:
        """The frame ``predictions``."""
        return self.predictions

    def __repr__(self) -> str:
        rows = self.predictions
        networks, modes = rows["network"].n_unique(), rows["mode"].n_unique()
        return f"Prediction({rows.height} rows, networks={networks}, modes={modes})"

    def _repr_html_(self) -> str:
        return self.predictions._repr_html_()


@dataclass(frozen=True, eq=False)
class Basis:
    """All that predictions in ``modes`` rest on: frames alone, so that another process can predict
    some of the networks, and none holds all of them.

    ``known`` and ``measured``: the modes that were measured or published, and their coefficients;
    ``observations``: of all devices; ``selected``: those of networks that are asked for.
    ``is_filled``: what is not known in a mode is modelled from the other modes of its device.
    ``groups`` have the columns of SHAPE_SCHEMA too where a device is calibrated by shapes.
    """

    known: pl.DataFrame
    measured: pl.DataFrame
    observations: pl.DataFrame
    modes: pl.DataFrame
    groups: pl.DataFrame
    scores: pl.DataFrame
    selected: pl.DataFrame
    calibration: Calibration
    transfers: Transfers
    is_filled: bool

    @cached_property
    def coefficients(self) -> pl.DataFrame:
        """COEFFICIENT_SCHEMA in ``modes``."""
        measured = self.measured
        if self.is_filled:
            measured = scale(self.known, measured, self.modes)
        return _comparable(measured)

    @property
    def notes(self) -> tuple[str, ...]:
        """By what calibrated predictions are scaled, and how far off they are."""
        return (*_notes(self.calibration), *self.transfers.notes)

    def parts(self, *, each_network: bool = False) -> list[str | None]:
        """Networks to predict one after the other, or None for all at once where that is little."""
        key = ("network", "batch", "precision", "phase")
        cases = pl.concat([self.scores.select(key), self.selected.select(key)]).unique()
        if not each_network and cases.height * self.modes.height <= _MOST_ROWS:
            return [None]
        names = (frame["network"].to_list() for frame in (self.scores, self.selected))
        return list(dict.fromkeys(itertools.chain(*names)))

    def predictions(self, network: str | None = None) -> pl.DataFrame:
        """PREDICTION_SCHEMA of all networks, or of the one with this name."""
        groups, scores, selected = self.groups, self.scores, self.selected
        if network is not None:
            scores, selected = scores.filter(network=network), selected.filter(network=network)
            groups = groups.join(scores, on="score_id", how="semi", maintain_order="left")
        roofed = predict_roofed(groups, scores, self.coefficients, self.modes)
        transfers = self.transfers.times
        if network is not None:
            transfers = transfers.filter(network=network)
        if self.calibration or not transfers.is_empty():
            roofed = scale_classes(
                roofed, self.calibration, groups, scores, self.coefficients, self.modes
            )
            asked = transfers.join(self.modes, on=["device", "mode"], how="semi")
            # A network with times here is fitted to these in every mode.
            asked = asked.join(selected, on=list(PREDICTION_KEY), how="anti", nulls_equal=True)
            rows = pl.concat([roofed, _unscored(roofed, asked)])
            roofed = apply_totals(rows, self.calibration, self.coefficients, transfers)
        # Networks that no roof predicts, by their times.
        alone = selected.join(roofed, on=list(PREDICTION_KEY), how="anti", nulls_equal=True)
        roofed = roofed.select(list(PREDICTION_SCHEMA))
        return pl.concat([roofed, predict_observed(alone, self.known, self.modes)])


def predict(
    dataset: Dataset | Models,
    networks: Sequence[NetworkSelection] | None = None,
    modes: pl.DataFrame | Sequence[pl.DataFrame] | None = None,
    *,
    calibrate: bool = False,
    measured_scores: Sequence[ModelScore] = (),
    fill_gaps: bool = True,
    each_run: bool = False,
) -> Prediction:
    """Time, energy and power of ``networks`` in ``modes``.

    ``dataset``: or its models, where they were needed before. ``networks``: None means every
    network that the dataset has scores or times of. ``modes``: one MODE_SCHEMA frame or several;
    None means the modes that were measured or published.

    ``calibrate``: scale the predictions to the measured networks that the dataset has scores of,
    or ``networks``, or ``measured_scores``; raises InputError where there is none.
    ``fill_gaps``: model what is not known in a mode from the other modes of its device.
    ``each_run``: the modes are the runs, each with its own roofs, as ``Models.run_modes``; the
    predictions have SHARE_SCHEMA too, and networks without scores are left out.
    """
    models = dataset if isinstance(dataset, Models) else find_models(dataset)
    if each_run:
        layers = _layers(models.dataset, networks)
        shown = None if _has_scores(networks) else network_names(models.dataset)
        groups, scores = group_frame(layers), score_frame(layers, shown)
        modes, coefficients = (
            models.run_modes,
            _comparable(models.run_coefficients),
        )
        predictions = predict_scores(groups, scores, coefficients, modes, with_shares=True)
        return Prediction(models, modes, coefficients, groups, scores, predictions.collect(), {})
    basis = basis_of(
        models,
        networks,
        modes,
        calibrate=calibrate,
        measured_scores=measured_scores,
        fill_gaps=fill_gaps,
    )
    return predict_all(models, basis)


def predict_all(models: Models, basis: Basis) -> Prediction:
    """Every network of ``basis``, which is of ``models``."""
    return Prediction(
        models=models,
        modes=basis.modes,
        coefficients=basis.coefficients,
        groups=basis.groups,
        scores=basis.scores,
        predictions=basis.predictions(),
        calibration=basis.calibration,
        transfers=basis.transfers,
    )


def basis_of(
    models: Models,
    networks: Sequence[NetworkSelection] | None = None,
    modes: pl.DataFrame | Sequence[pl.DataFrame] | None = None,
    *,
    calibrate: bool = False,
    measured_scores: Sequence[ModelScore] = (),
    fill_gaps: bool = True,
) -> Basis:
    """What ``predict`` rests on, asked as that is; raises InputError as that does."""
    layers = _layers(models.dataset, networks)
    shown = None if _has_scores(networks) else network_names(models.dataset)
    if _has_scores(networks):
        models = models.judged_by(layers)
    known = models.of_devices(models.modes)
    if modes is None:
        modes = known
    elif not isinstance(modes, pl.DataFrame):
        modes = pl.concat([known.clear(), *modes])
    modes = models.own_settings(modes)
    groups, scores = group_frame(layers, with_kernels=calibrate), score_frame(layers, shown)
    calibration: Calibration = {}
    transfers = NO_TRANSFERS
    if calibrate:
        every = pl.concat([layers, layer_frame(list(measured_scores))])
        every = every.unique(["score_id", "index"], keep="first", maintain_order=True)
        calibration, roofed, gap = _calibrate(models, every, shown)
        transfers = _transfers(models, scores, networks, roofed)
        if gap is not None and transfers.times.is_empty():
            fix = "; ".join(filter(None, [gap.fix, *transfers.notes]))
            raise InputError(gap.what, where=gap.where, fix=fix)
    if any(fitted.shapes is not None for fitted in calibration.values()):
        sizes = group_shapes(layers, groups)
        groups = groups.join(sizes, on=["score_id", "group"], how="left", maintain_order="left")
    return Basis(
        known=known,
        measured=models.of_devices(models.coefficients),
        observations=models.observations,
        modes=modes,
        groups=groups,
        scores=scores,
        selected=_observations(models, networks),
        calibration=calibration,
        transfers=transfers,
        is_filled=fill_gaps,
    )


def _transfers(
    models: Models,
    scores: pl.DataFrame,
    networks: Sequence[NetworkSelection] | None,
    roofed: pl.DataFrame,
) -> Transfers:
    """Of networks with ``scores``, and of those that are named and recorded on other boards.

    ``roofed``: what the roofs say of scored networks, measured ones among them.
    """
    recorded = models.recordings
    setting = ["network", "batch", "precision", "phase"]
    asked = [
        called(recorded, network.name)
        .with_columns(network=pl.lit(network.name))
        .filter(network.keeps("network"))
        .select(setting)
        for network in networks or ()
        if network.name and not network.scores
    ]
    wanted = pl.concat([scores.select(setting), *asked]).unique(maintain_order=True)
    devices = pl.DataFrame({"device": list(models.devices)}, schema={"device": pl.String})
    return transfer_times(recorded, devices.join(wanted, how="cross"), roofed)


def _notes(calibration: Calibration) -> tuple[str, ...]:
    return tuple(
        line for place, fitted in calibration.items() for line in fitted.notes(place_name(*place))
    )


def check_any(dataset: Dataset, *, is_any: bool) -> None:
    """Raises InputError where nothing is predicted from ``dataset``."""
    if not is_any:
        raise InputError(
            "there is nothing to predict: no roof with a scored network, and no times of one",
            where=", ".join(dataset.locations),
            fix="name a network, run 'mansard bench', or import a table with 'mansard data import'",
        )


def calibration_of(models: Models) -> Calibration:
    """By the measured networks that the dataset has scores of, and by the zoo's operators; empty
    where there is none."""
    models = models.with_operators()
    layers = models.dataset.layers
    scores = score_frame(layers, network_names(models.dataset))
    scores = scores.filter(pl.col("network").is_in(list(models.observed_networks())))
    if scores.is_empty():
        return {}
    layers = layers.join(scores, on="score_id", how="semi", maintain_order="left")
    return _calibration(models, layers, scores)[0]


def _calibration(
    models: Models, layers: pl.DataFrame, scores: pl.DataFrame
) -> tuple[Calibration, pl.DataFrame]:
    """By the measured networks of ``scores``, and what the roofs say of all of these."""
    groups = group_frame(layers, with_kernels=True)
    modes = models.of_devices(models.modes)
    coefficients = scale(modes, models.of_devices(models.coefficients), modes)
    predictions = predict_roofed(groups, scores, _comparable(coefficients), modes)
    timed = timed_networks(models, layers, groups, scores, coefficients, modes)
    observations = models.of_devices(models.observations)
    shapes = NO_SHAPES
    if timed is not None:
        shapes = fit_timed_shapes(timed.placed, layers, groups, coefficients, modes)
    return calibrate_totals(predictions, observations, models.modes, timed, shapes), predictions


def _unscored(roofed: pl.DataFrame, transfers: pl.DataFrame) -> pl.DataFrame:
    """Rows as those of ``roofed``, without a number, of networks that only ``transfers`` know."""
    key = ["mode", *PREDICTION_KEY]
    known = {
        "score_id": "",
        "source": "modelled",
        "is_extrapolated": False,
        "reason": "its energy is unknown: it was not scored, or its mode has no roofs",
    }
    new = transfers.join(roofed, on=key, how="anti", nulls_equal=True).select(
        *key, *(pl.lit(value).alias(name) for name, value in known.items())
    )
    return pl.concat([roofed.clear(), new], how="diagonal")


def scale_classes(
    roofed: pl.DataFrame,
    calibration: Calibration,
    groups: pl.DataFrame,
    scores: pl.DataFrame,
    coefficients: pl.DataFrame,
    modes: pl.DataFrame,
) -> pl.DataFrame:
    """``roofed``, which is ``predict_roofed`` of the rest, by the classes that its devices have.

    Where layers were timed, classes of operators come first, or the shapes of operators where they
    are nearer: then ``groups`` have the columns of SHAPE_SCHEMA too. ``apply_totals`` comes after.
    """
    scores = scores.filter(stage_columns()["kind"] == pl.col("phase"))
    classes = {key: fitted.classes for key, fitted in calibration.items() if fitted.classes}
    if classes:
        by_classes = predict_by_classes(groups, scores, coefficients, modes, classes)
        roofed = _replaced(roofed, by_classes)
    shapes = {key: fitted.shapes for key, fitted in calibration.items() if fitted.shapes}
    if shapes:
        by_shapes = predict_by_shapes(groups, scores, coefficients, modes, shapes)
        roofed = _replaced(roofed, by_shapes)
    return roofed


def _replaced(roofed: pl.DataFrame, scaled: pl.DataFrame) -> pl.DataFrame:
    """``roofed`` with the rows of ``scaled`` in the place of its own."""
    key = ["device", "mode", "score_id"]
    places = roofed.select(*key, "n_launches").with_row_index("place")
    known = scaled.join(places, on=key).select(*roofed.columns, "place")
    rest = roofed.with_row_index("place").join(known, on="place", how="anti")
    return pl.concat([known, rest.select(known.columns)]).sort("place").drop("place")


def _comparable(coefficients: pl.DataFrame) -> pl.DataFrame:
    """Without the launch costs of devices that were not measured in each of their modes.

    Compared with a mode without them, a mode that has them would look slower than it is. All modes
    of the device count, and no other device: a prediction does not depend on what else is asked.
    A published cost includes a framework's dispatch, which other engines do not need: it would make
    "at best" slower than they are.
    """
    where = ["device", "mode"]
    is_launch = pl.col("quantity") == "launch"
    is_own = pl.col("value").is_not_null() & (pl.col("source") != "published")
    known = coefficients.filter(is_launch, is_own)
    lacking = coefficients.select(where).unique().join(known, on=where, how="anti")["device"]
    return coefficients.filter(~(is_launch & pl.col("device").is_in(lacking.implode())))


def predict_roofed(
    groups: pl.DataFrame, scores: pl.DataFrame, coefficients: pl.DataFrame, modes: pl.DataFrame
) -> pl.DataFrame:
    """PREDICTION_SCHEMA, SHARE_SCHEMA and n_launches, in those of ``modes`` that have a roof."""
    roofed = modes.join(coefficients, on=["device", "mode"], how="semi", maintain_order="left")
    predictions = predict_scores(groups, scores, coefficients, roofed, with_shares=True).collect()
    predictions = with_added_parts(predictions, groups, scores, coefficients, roofed)
    starts = groups.group_by("score_id").agg(pl.col("n_launches").sum())
    return predictions.join(starts, on="score_id", how="left", maintain_order="left")


def _calibrate(
    models: Models, layers: pl.DataFrame, names: dict[str, str] | None
) -> tuple[Calibration, pl.DataFrame, InputError | None]:
    """By all measured networks of ``layers``, which are called ``names``, and of the dataset.

    Beside it what the roofs say of all of these, and why it is empty, where it is. The zoo's
    operators are among them.
    """
    models = models.with_operators()
    unscored = models.dataset.layers.filter(~pl.col("score_id").is_in(layers["score_id"].to_list()))
    scores = pl.concat(
        [score_frame(layers, names), score_frame(unscored, network_names(models.dataset))]
    )
    calibration, predictions = _calibration(models, pl.concat([layers, unscored]), scores)
    if calibration:
        return calibration, predictions, None
    observations = models.of_devices(models.observations)
    gap = calibration_gap(predictions, scores, observations, models.dataset.locations)
    return calibration, predictions, gap


def _has_scores(networks: Sequence[NetworkSelection] | None) -> bool:
    return any(network.scores is not None for network in networks or ())


def _layers(dataset: Dataset, networks: Sequence[NetworkSelection] | None) -> pl.DataFrame:
    """LAYER_SCHEMA of the selected scores, each score once."""
    if networks is None:
        return dataset.layers
    given = {score_id(score): score for network in networks for score in network.scores or ()}
    layers = layer_frame(list(given.values()))
    known = [network.keeps("model") for network in networks if network.scores is None]
    if not known:
        return layers
    others = dataset.layers.filter(pl.any_horizontal(known), ~pl.col("score_id").is_in(list(given)))
    return pl.concat([layers, others])


def _observations(models: Models, networks: Sequence[NetworkSelection] | None) -> pl.DataFrame:
    rows = models.of_devices(models.observations)
    if networks is None:
        return rows
    selected = [rows.filter(network.keeps("network")) for network in networks]
    return pl.concat(selected).unique(maintain_order=True) if selected else rows.clear()
