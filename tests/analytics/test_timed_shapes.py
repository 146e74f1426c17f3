"""Networks that were never run, by the shapes of the zoo's operators on a made-up machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl
import pytest

from mansard.analytics.data.frames import layer_frame
from mansard.analytics.data.model_frames import OBSERVATION_SCHEMA
from mansard.analytics.models.predict.groups import group_frame, score_frame
from mansard.analytics.models.predict.operator_shapes import group_shapes
from mansard.analytics.models.predict.prediction import predict_roofed, scale_classes
from mansard.analytics.models.predict.timed_layers import LAYER_GROUP_SCHEMA, at_roofs
from mansard.analytics.models.predict.timed_operators import operator_frame, timed_frame
from mansard.analytics.models.predict.timed_shapes import fit_timed_shapes
from mansard.analytics.models.predict.totals_calibration import (
    Calibration,
    apply_totals,
    calibrate_totals,
)
from mansard.estimator import zoo
from mansard.estimator.scoring import score
from tests.analytics.predict_factory import LAUNCH, ROUND, coefficient_rows, mode_frame

ENGINE = "an engine"
LAUNCH_S = 3e-6
MODES = mode_frame()
COEFFICIENTS = coefficient_rows({key: value for key, value in ROUND.items() if key != LAUNCH})
UNSEEN = ("squeezenet1_1", "resnet18")
DESIGNED = ("zoo_operators1", "zoo_operators2", "zoo_operators3")


@dataclass(frozen=True, eq=False)
class Machine:
    """``operators``: OPERATOR_SCHEMA and what each takes, ``true_s``."""

    layers: pl.DataFrame
    groups: pl.DataFrame
    scores: pl.DataFrame
    operators: pl.DataFrame


@pytest.fixture(scope="module")
def machine() -> Machine:
    """Sums shorter than 200 take longer, by up to a factor of √200; others twice the roof."""
    names = (*DESIGNED, *UNSEEN)
    layers = layer_frame([score(zoo.read(name), name=name, batch=1) for name in names])
    groups, scores = group_frame(layers), score_frame(layers)
    operators = operator_frame(group_shapes(layers, groups), groups, COEFFICIENTS, MODES)
    short = (200 / pl.col("k")).clip(1.0).sqrt()
    true_s = 2 * short * pl.col("work_s") + 1.5 * pl.col("traffic_s") + LAUNCH_S
    is_busy = pl.col("n_launches") > 0
    timed = operators.filter(is_busy).with_columns(true_s=true_s)
    return Machine(layers, groups, scores, timed)


def taken_s(machine: Machine) -> dict[str, float]:
    sums = machine.operators.group_by("score_id").agg(pl.col("true_s").sum())
    named = sums.join(machine.scores, on="score_id")
    return dict(named.select("network", "true_s").iter_rows())


def calibrated(machine: Machine, names: tuple[str, ...]) -> Calibration:
    """By ``names`` as measured, layer by layer."""
    same = {"engine": ENGINE, "phase": "inference", "batch": 1, "precision": "fp32"}
    rows = machine.operators.join(
        machine.scores.filter(pl.col("network").is_in(names)).select("score_id", "network"),
        on="score_id",
    ).with_row_index("layer")
    placed = rows.with_columns(measured_s="true_s", **{k: pl.lit(v) for k, v in same.items()})
    placed = placed.select(pl.col(name).cast(kind) for name, kind in LAYER_GROUP_SCHEMA.items())
    timed = at_roofs(placed, machine.groups, COEFFICIENTS, MODES, {})
    observations = pl.DataFrame(
        [
            {"device": "board", "mode": "m", "network": name, "latency_s": took, **same}
            | {"source": "measured"}
            for name, took in taken_s(machine).items()
            if name in names
        ],
        schema=OBSERVATION_SCHEMA,
    )
    shapes = fit_timed_shapes(timed.placed, machine.layers, machine.groups, COEFFICIENTS, MODES)
    roofed = predict_roofed(machine.groups, machine.scores, COEFFICIENTS, MODES)
    return calibrate_totals(roofed, observations, None, timed, shapes)


def predicted_s(machine: Machine, calibration: Calibration) -> dict[str, float]:
    roofed = predict_roofed(machine.groups, machine.scores, COEFFICIENTS, MODES)
    sizes = group_shapes(machine.layers, machine.groups)
    groups = machine.groups.join(sizes, on=["score_id", "group"], maintain_order="left")
    scaled = scale_classes(roofed, calibration, groups, machine.scores, COEFFICIENTS, MODES)
    found = apply_totals(scaled, calibration, COEFFICIENTS)
    return dict(found.select("network", "latency_s").iter_rows())


def test_operators_alone_predict_networks_that_never_ran(machine: Machine) -> None:
    calibration = calibrated(machine, DESIGNED)
    fitted = calibration["board", "inference"]
    assert fitted.shapes is not None
    assert fitted.classes is None
    note = fitted.shapes.note("board")
    assert re.search(
        r"\d+ timed operators and of 0 layers of networks; a launch takes 3(\.|\b)", note
    )
    assert fitted.why.startswith("fewer than two networks were measured beside the zoo's operators")
    said, truth = predicted_s(machine, calibration), taken_s(machine)
    roofed = predict_roofed(machine.groups, machine.scores, COEFFICIENTS, MODES)
    roofs = dict(roofed.select("network", "latency_s").iter_rows())
    for name in UNSEEN:
        assert said[name] == pytest.approx(truth[name], rel=0.12)
        assert roofs[name] < 0.6 * truth[name]


def test_shapes_are_taken_beside_networks_where_they_are_nearer(machine: Machine) -> None:
    fitted = calibrated(machine, (*DESIGNED, *UNSEEN))["board", "inference"]
    assert fitted.shapes is not None
    assert fitted.why.startswith("the error on networks left out is the smallest")
    assert fitted.other_networks is not None
    assert fitted.networks.mean_error < fitted.other_networks.mean_error
    # The line goes through the networks alone, and they alone judge.
    assert set(fitted.lines.pairs["network"]) == set(UNSEEN)
    assert len(fitted.networks.logs) == len(UNSEEN)


def test_one_network_beside_operators_tests_nothing(machine: Machine) -> None:
    calibration = calibrated(machine, (*DESIGNED, "resnet18"))
    fitted = calibration["board", "inference"]
    assert fitted.shapes is not None
    assert fitted.networks.misfit is None
    assert fitted.why.startswith("fewer than two networks")
    said, truth = predicted_s(machine, calibration), taken_s(machine)
    assert said["squeezenet1_1"] == pytest.approx(truth["squeezenet1_1"], rel=0.12)


def test_without_the_zoo_s_operators_nothing_changes(machine: Machine) -> None:
    fitted = calibrated(machine, UNSEEN)["board", "inference"]
    assert fitted.shapes is None


def test_a_layer_of_several_groups_is_one_operator(machine: Machine) -> None:
    first, second = machine.operators.filter(kind="conv").head(2).to_dicts()
    same = {"device": "board", "mode": "m", "network": "n", "batch": 1, "precision": "fp32"}
    same |= {"engine": ENGINE, "phase": "inference", "layer": 0, "measured_s": 1e-3}
    placed = pl.DataFrame(
        [{**same, "score_id": row["score_id"], "group": row["group"]} for row in (first, second)],
        schema=LAYER_GROUP_SCHEMA,
    )
    (row,) = timed_frame(placed, machine.operators.drop("true_s")).to_dicts()
    assert row["measured_s"] == 1e-3
    assert row["work_s"] == pytest.approx(first["work_s"] + second["work_s"])
    larger = max((first, second), key=lambda one: one["work_s"])
    assert (row["m"], row["k"]) == (larger["m"], larger["k"])
