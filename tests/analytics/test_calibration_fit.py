"""Factors of classes fitted to layers that were timed one by one."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.models.predict.class_fit import TIMED_SCHEMA, ClassFit, fit_classes

LAUNCH_S = {"slow": 20e-6, "fast": 10e-6}
FACTORS = {"conv": 2.0, "matmul": 3.0}
_ROOFS_US = (10, 20, 40, 80)


def timed_groups(**changes: object) -> pl.DataFrame:
    """Three networks of four groups of each class in two modes, exactly by the model."""
    rows = [
        {
            "device": "Board GPU",
            "mode": mode,
            "network": network,
            "batch": 1,
            "precision": "fp16",
            "layer": layer,
            "op_class": op_class,
            "roof_s": at * roof * 1e-6,
            "n_launches": 1,
            "measured_s": factor * at * roof * 1e-6 + launch_s,
        }
        for mode, launch_s in LAUNCH_S.items()
        for at, network in enumerate(("a", "b", "c"), 1)
        for layer, ((op_class, factor), roof) in enumerate(product(FACTORS.items(), _ROOFS_US))
    ]
    return pl.DataFrame(rows, schema=TIMED_SCHEMA).with_columns(
        pl.lit(value).alias(name) for name, value in changes.items()
    )


def fitted(groups: pl.DataFrame) -> ClassFit:
    found = fit_classes(groups)
    assert found is not None
    return found


def test_what_the_model_made_is_found_again() -> None:
    found = fitted(timed_groups())
    for factors in (found.all_networks, *found.without.values()):
        assert factors.by_kind == pytest.approx(
            {("conv", "fp16"): 2.0, ("matmul", "fp16"): 3.0}, rel=1e-3
        )
        assert factors.launches_s == pytest.approx(LAUNCH_S, rel=1e-2)
        assert factors.launch_s == pytest.approx(14.142e-6, rel=1e-2)  # √(20 · 10)
    assert (found.networks, tuple(found.without)) == (("a", "b", "c"),) * 2
    assert (found.n_groups, found.n_left_out) == (48, 0)
    conv = found.records[0]
    assert (conv.op_class, conv.precision, conv.n_groups, conv.n_networks) == (
        "conv",
        "fp16",
        24,
        3,
    )
    assert conv.low is not None
    assert conv.high is not None
    assert 1.9 < conv.low <= 2.0001
    assert 1.9999 <= conv.high < 2.1


def test_rows_of_a_layer_are_one_time() -> None:
    # A group of half the time at the roof beside each: 2 · (roof + roof / 2) for a convolution.
    more = timed_groups().with_columns(roof_s=pl.col("roof_s") / 2, n_launches=pl.lit(0, pl.Int64))
    factor = pl.col("op_class").replace_strict(FACTORS, return_dtype=pl.Float64)
    own = timed_groups().with_columns(
        measured_s=pl.col("measured_s") + factor * pl.col("roof_s") / 2
    )
    layers = pl.concat([own, more.with_columns(measured_s=own["measured_s"])])
    found = fitted(layers).all_networks
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-3)
    assert found.launches_s == pytest.approx(LAUNCH_S, rel=1e-2)


def test_one_group_timed_badly_moves_nothing() -> None:
    groups = timed_groups().with_row_index("at")
    bad = pl.when(pl.col("at") == 5).then(pl.col("measured_s") * 1.5).otherwise("measured_s")
    found = fitted(groups.with_columns(measured_s=bad)).all_networks
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-2)
    assert found.factor("matmul", "fp16") == pytest.approx(3.0, rel=1e-2)


def test_a_factor_at_its_least_has_no_interval() -> None:
    # All of the time is that of the launches.
    hidden = timed_groups().with_columns(
        measured_s=pl.col("mode").replace_strict(LAUNCH_S, return_dtype=pl.Float64)
    )
    conv = fitted(hidden).records[0]
    assert (conv.value, conv.low, conv.high) == (0.001, None, None)
    assert conv.unknown["low"] == "the factor is at its lower bound"


def test_a_launch_that_nothing_starts_is_unknown() -> None:
    found = fitted(timed_groups(n_launches=0)).all_networks
    assert (found.launches_s, found.launch_s) == ({}, 0.0)


def test_too_few_of_a_class_take_the_overall_factor() -> None:
    groups = timed_groups().with_row_index("at")
    rare = pl.when(pl.col("at") == 0).then(pl.lit("recurrent")).otherwise("op_class")
    found = fitted(groups.with_columns(op_class=rare))
    by_class = {factor.op_class: factor for factor in found.records}
    assert by_class["recurrent"].value is None
    assert by_class["recurrent"].unknown["value"] == "fewer than 2 groups: the overall factor holds"
    factors = found.all_networks
    assert factors.factor("recurrent", "fp16") == factors.overall
    assert 2.0 < factors.overall < 3.0
    # A precision that was not timed has the factors of one that was.
    assert factors.factor("conv", "int8") == factors.factor("conv", "fp16")


def test_one_network_has_no_intervals() -> None:
    found = fitted(timed_groups().filter(pl.col("network") == "a"))
    assert found.without == {}
    conv = found.records[0]
    assert (conv.low, conv.high) == (None, None)
    assert conv.unknown["low"] == "an interval needs three networks"


def test_a_class_of_one_network_has_no_interval() -> None:
    is_own = (pl.col("network") == "a") & (pl.col("op_class") == "conv")
    own = pl.when(is_own).then(pl.lit("attention")).otherwise("op_class")
    found = fitted(timed_groups().with_columns(op_class=own))
    attention = found.records[0]
    assert attention.value == pytest.approx(2.0, rel=1e-2)
    assert attention.unknown["high"] == "only one network has this class"


def test_groups_without_a_time_are_left_out_and_counted() -> None:
    groups = timed_groups().with_row_index("at")
    at = pl.col("at")
    broken = groups.with_columns(
        measured_s=pl.when(at == 0)
        .then(float("nan"))
        .when(at == 1)
        .then(-1.0)
        .when(at == 2)
        .then(0.0)
        .otherwise("measured_s"),
        roof_s=pl.when(at == 3).then(None).when(at == 4).then(float("inf")).otherwise("roof_s"),
        network=pl.when(at == 5).then(None).otherwise("network"),
    )
    found = fitted(broken)
    assert (found.n_groups, found.n_left_out) == (42, 6)
    assert found.all_networks.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-2)


@pytest.mark.parametrize(
    "groups", [timed_groups().clear(), timed_groups().head(7), timed_groups(measured_s=0.0)]
)
def test_too_few_layers_are_no_fit(groups: pl.DataFrame) -> None:
    assert fit_classes(groups) is None


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 100))
def test_factors_are_ratios_whatever_the_unit_of_time(unit: float) -> None:
    found = fitted(timed_groups().with_columns(pl.col("roof_s", "measured_s") * unit)).all_networks
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-2)
    assert found.launches_s["fast"] == pytest.approx(10e-6 * unit, rel=5e-2)
