"""A calibration fitted to groups that were timed one by one."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.predict.class_calibration import TIMED_SCHEMA
from mansard.analytics.predict.class_calibration_fit import fit_calibration
from mansard.core.errors import InputError

LAUNCH_S = {"slow": 20e-6, "fast": 10e-6}
CPU_HZ = {"slow": 1e9, "fast": 2e9}  # 20,000 cycles in both
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


def test_what_the_model_made_is_found_again() -> None:
    found = fit_calibration(timed_groups(), runtime="made up")
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-3)
    assert found.factor("matmul", "fp16") == pytest.approx(3.0, rel=1e-3)
    costs = {cost.mode: cost.value_s for cost in found.launches}
    assert costs == pytest.approx(LAUNCH_S, rel=1e-2)
    assert found.after.worst < 1e-3
    assert found.unseen is not None
    assert found.unseen.worst < 1e-3
    assert (found.networks, found.modes) == (("a", "b", "c"), ("fast", "slow"))
    assert (found.n_groups, found.n_left_out) == (48, 0)


def test_the_error_before_is_that_of_the_roofs_alone() -> None:
    # Network a, fast: roofs 2 × 150 us; measured 5 × 150 + 8 × 10 us = 830: 1 - 300 / 830 = 0.639.
    # b: 600 of 1580, c: 900 of 2330. Slow: 300 of 910, 600 of 1660, 900 of 2410.
    # Errors 0.6386, 0.6203, 0.6137, 0.6703, 0.6386, 0.6266; median (0.6266 + 0.6386) / 2 = 0.6326.
    found = fit_calibration(timed_groups(), runtime="made up")
    assert found.before.median == pytest.approx(0.6326, abs=1e-4)
    assert found.before.worst == pytest.approx(0.6703, abs=1e-4)
    assert found.before.n_totals == 6


def test_one_number_of_cycles_for_all_modes() -> None:
    found = fit_calibration(timed_groups(), runtime="made up", cpu_hz=CPU_HZ)
    assert found.is_launch_in_cycles
    # 20,000 cycles at 1 and 2 GHz.
    costs = {cost.mode: cost.value_s for cost in found.launches}
    assert costs == pytest.approx({"slow": 20e-6, "fast": 10e-6}, rel=1e-2)


def test_a_mode_without_a_clock_is_named() -> None:
    with pytest.raises(InputError, match="no CPU clock of mode slow"):
        fit_calibration(timed_groups(), runtime="made up", cpu_hz={"fast": 2e9})


def test_one_group_timed_badly_moves_nothing() -> None:
    groups = timed_groups().with_row_index("at")
    bad = pl.when(pl.col("at") == 5).then(pl.col("measured_s") * 1.5).otherwise("measured_s")
    found = fit_calibration(groups.with_columns(measured_s=bad), runtime="made up")
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-2)
    assert found.factor("matmul", "fp16") == pytest.approx(3.0, rel=1e-2)


def test_no_kernel_beats_its_roof_unless_it_may() -> None:
    # Groups that take half of their time under the roof, and start nothing.
    fast = timed_groups(n_launches=0).with_columns(measured_s=pl.col("roof_s") / 2)
    assert fit_calibration(fast, runtime="made up").factor("conv", "fp16") == 1.0
    cached = fit_calibration(fast, runtime="made up", least_factor=0.25)
    assert cached.factor("conv", "fp16") == pytest.approx(0.5, rel=1e-3)


def test_a_factor_at_its_least_has_no_interval() -> None:
    fast = timed_groups(n_launches=0).with_columns(measured_s=pl.col("roof_s") / 2)
    conv = fit_calibration(fast, runtime="made up").factors[0]
    assert (conv.value, conv.low, conv.high) == (1.0, None, None)
    assert "explains all" in conv.unknown["low"]


def test_a_launch_that_nothing_starts_is_unknown() -> None:
    found = fit_calibration(timed_groups(n_launches=0), runtime="made up")
    assert found.launches[0].value_s is None
    assert found.launches[0].unknown["value_s"] == "no group of the mode starts a kernel"
    assert found.launch_s("fast") is None


def test_too_few_of_a_class_take_the_overall_factor() -> None:
    groups = timed_groups().with_row_index("at")
    rare = pl.when(pl.col("at") == 0).then(pl.lit("recurrent")).otherwise("op_class")
    found = fit_calibration(groups.with_columns(op_class=rare), runtime="made up")
    by_class = {factor.op_class: factor for factor in found.factors}
    assert by_class["recurrent"].value is None
    assert by_class["recurrent"].unknown["value"].startswith("1 groups, it takes 2")
    assert found.factor("recurrent", "fp16") == found.overall
    assert 2.0 < found.overall < 3.0
    # Nor is a precision calibrated that was not timed.
    assert found.factor("conv", "int8") == found.overall
    assert found.efficiency("fp16")["attention"] == found.overall


def test_one_network_has_no_error_on_unseen_ones() -> None:
    alone = timed_groups().filter(pl.col("network") == "a")
    found = fit_calibration(alone, runtime="made up")
    assert found.unseen is None
    assert "only one network" in found.unknown["unseen"]
    assert found.factors[0].low is None
    assert "three networks" in found.factors[0].unknown["low"]


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
    found = fit_calibration(broken, runtime="made up")
    assert (found.n_groups, found.n_left_out) == (42, 6)
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-2)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (timed_groups().clear(), "no mode has 8 groups"),
        (timed_groups().head(7), "no mode has 8 groups"),
        (timed_groups(measured_s=0.0), "no mode has 8 groups"),
        (timed_groups().drop("roof_s"), "no column roof_s"),
        (
            pl.concat([timed_groups(), timed_groups(device="Another GPU")]),
            "Another GPU and Board GPU",
        ),
    ],
)
def test_bad_input_is_said_in_one_line(groups: pl.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fit_calibration(groups, runtime="made up")
    assert "\n" not in str(caught.value)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 100))
def test_factors_are_ratios_whatever_the_unit_of_time(unit: float) -> None:
    groups = timed_groups().with_columns(pl.col("roof_s", "measured_s") * unit)
    found = fit_calibration(groups, runtime="made up")
    assert found.factor("conv", "fp16") == pytest.approx(2.0, rel=1e-2)
    assert found.launch_s("fast") == pytest.approx(10e-6 * unit, rel=5e-2)
