"""Times and powers of networks between modes: laws recovered, bounds kept, gaps said."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import PREDICTION_SCHEMA
from mansard.analytics.models.scaling.network_bounds import network_bounds
from mansard.analytics.models.scaling.network_fit import NetworkFit, fit_network, fit_networks
from mansard.analytics.models.scaling.network_predict import predict_modes
from mansard.analytics.models.scaling.network_terms import setting_values
from mansard.core.errors import InputError
from tests.analytics.network_truth import Law, modes, name, observe, some

GPU, MEMORY = (0.3, 0.5, 0.8, 1.3), (0.8, 1.6, 3.2)
GRID = modes(GPU, MEMORY)
CORNERS = [name(g, m) for g in (0.3, 1.3) for m in (0.8, 3.2)]


def predicted(fit: NetworkFit, mode: str, of: pl.DataFrame = GRID) -> dict[str, object]:
    return some(predict_modes(fit, of), [mode]).row(0, named=True)


def test_a_plain_law_is_recovered() -> None:
    # 6 ms / f_gpu + 4 ms / f_memory + 2 ms, seen at five modes, asked at a sixth
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory + 0.002)
    fit = fit_network(some(found, [*CORNERS, name(0.5, 1.6)]), GRID)
    row = predicted(fit, name(0.8, 0.8))
    # 6 / 0.8 + 4 / 0.8 + 2 = 14.5 ms
    assert row["latency_s"] == pytest.approx(0.0145, rel=0.01)
    assert row["source"] == "modelled"
    assert row["is_extrapolated"] is False


def test_layers_that_wait_for_the_slower_side() -> None:
    # A ridge in the middle of those that the clocks can show: between 0.8 / 1.3 and 3.2 / 0.3,
    # √(0.6154 · 10.667) = 2.562. Above f_memory = 2.562 · f_gpu the layer waits for arithmetic.
    def law(gpu: float, memory: float) -> float:
        return max(0.006 / gpu, 2.562 * 0.006 / memory)

    fit = fit_network(some(observe(GRID, law), [*CORNERS, name(0.5, 1.6), name(0.8, 0.8)]), GRID)
    # 6 / 0.8 = 7.5 ms, for 3.2 > 2.562 · 0.8; 2.562 · 6 / 1.6 = 9.608 ms, for 1.6 < 2.562 · 1.3
    row = predicted(fit, name(0.8, 3.2))
    assert (row["latency_s"], row["time_bound"]) == (pytest.approx(0.0075, rel=0.03), "compute")
    row = predicted(fit, name(1.3, 1.6))
    assert (row["latency_s"], row["time_bound"]) == (pytest.approx(0.009608, rel=0.03), "memory")


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)),
        min_size=1,
        max_size=6,
    ),
    st.floats(0, 5),
)
def test_no_clock_slows_a_network_and_every_time_is_within_its_interval(
    layers: list[tuple[float, float]], constant: float
) -> None:
    def law(gpu: float, memory: float) -> float:
        return constant + sum(max(work / gpu, moved / memory) for work, moved in layers)

    fit = fit_network(some(observe(GRID, law), [*CORNERS, name(0.5, 1.6), name(0.8, 0.8)]), GRID)
    rows = predict_modes(fit, GRID).join(GRID, on=["device", "mode"])
    for clock, other in (("gpu_hz", "memory_hz"), ("memory_hz", "gpu_hz")):
        for (_,), line in rows.sort(clock).group_by(other, maintain_order=True):
            steps = line.get_column("latency_s").diff().drop_nulls()
            assert (steps <= 1e-9 * line.get_column("latency_s").max()).all()  # type: ignore[operator]
    low, value, high = (rows[f"latency_{end}s"] for end in ("low_", "", "high_"))
    assert ((low <= value) & (value <= high)).all()


def test_power_of_a_clock_whose_voltage_rises() -> None:
    # 2 W + 3 W · f + 1 W · f³; the memory's clock is not named
    line = modes((0.2, 0.4, 0.7, 1.0, 1.3))
    found = observe(line, lambda gpu, _: 0.01 / gpu, lambda gpu, _: 2 + 3 * gpu + gpu**3)
    fit = fit_network(some(found, [name(g) for g in (0.2, 0.7, 1.0, 1.3)]), line)
    row = predicted(fit, name(0.4), line)
    # 2 + 1.2 + 0.064 = 3.264 W; 0.01 / 0.4 = 25 ms; 0.0816 J
    assert row["power_w"] == pytest.approx(3.264, rel=0.02)
    assert row["energy_j"] == pytest.approx(0.0816, rel=0.02)


def test_one_mode_bounds_all_others() -> None:
    # 10 ms at 0.5 and 1.6 GHz. At 1.3 and 3.2 GHz a network takes no more than the same, and
    # no less than 10 ms · 0.5 / 1.3 = 3.846 ms
    found = observe(GRID, lambda *_: 0.010)
    fit = fit_network(some(found, [name(0.5, 1.6)]), GRID)
    at = GRID["mode"].to_list().index(name(1.3, 3.2))
    low_s, high_s = network_bounds(fit.measured, setting_values(GRID)).latency_s
    assert (low_s[at], high_s[at]) == (pytest.approx(0.003846, rel=1e-3), 0.010)
    row = predicted(fit, name(1.3, 3.2))
    assert row["interval"] == "bounds"
    low, value, high = (float(str(row[f"latency{end}_s"])) for end in ("_low", "", "_high"))
    assert low < 0.003846 < value < 0.010 < high
    assert row["is_extrapolated"] is True
    assert row["notes"] == "time from one measured mode: measure in four or more"
    assert row["energy_j"] is None
    assert row["reason"] == "power was measured in no mode"


@pytest.mark.parametrize("known", ["n_sms", "memory_hz", "both"])
def test_named_modes_that_hide_settings_are_unknown_outside(
    known: str,
) -> None:
    # 7W of an Orin Nano has half the SMs of 15W: a table of GPU clocks alone does not say it.
    line = modes((0.4, 0.6, 0.9, 1.0)).with_columns(
        mode=pl.Series(["7W", "15W", "25W", "MAXN"]),
        n_sms=pl.lit(None if known == "memory_hz" else 8, pl.Int64),
        memory_hz=pl.lit(None if known == "n_sms" else 2e9, pl.Float64),
    )
    fit = fit_network(some(observe(line, lambda gpu, _: 0.010 / gpu), ["15W", "25W", "MAXN"]), line)
    row = predicted(fit, "7W", line)
    assert row["is_extrapolated"] is True
    assert row["interval"] == ("bounds" if known == "both" else None)
    assert (row["latency_s"] is None) is (known != "both")
    assert ("SMs or memory clock" in str(row["reason"])) is (known != "both")


def test_times_that_are_far_apart_are_fitted() -> None:
    line = modes((1.0, 1.001), (2.0,))
    found = observe(line, lambda gpu, _: 1e9 if gpu == 1.0 else 1e-9)
    rows = predict_modes(fit_network(found, line), line)
    assert rows["latency_s"].is_finite().all()


LAYERS = st.floats(0.1, 10)


@given(
    st.lists(st.floats(0, 10), min_size=5, max_size=5),
    LAYERS,
    LAYERS,
    st.floats(0, 10),
    st.lists(st.sampled_from(GRID["mode"].to_list()), min_size=1, max_size=3, unique=True),
)
def test_bounds_hold_whatever_the_network(
    watts: list[float], work: float, moved: float, constant: float, seen: list[str]
) -> None:
    def time(gpu: float, memory: float) -> float:
        return max(work / gpu, moved / memory) + constant

    def power(gpu: float, memory: float) -> float:
        idle, clock, voltage, traffic, done = watts
        switching = 0.1 + idle + clock * gpu + voltage * gpu**3 + traffic * memory
        return switching + done * gpu**2 / time(gpu, memory)

    found = observe(GRID, time, power)
    fit = fit_network(some(found, seen), GRID)
    bounds = network_bounds(fit.measured, setting_values(GRID))
    true = {
        "latency_s": found["latency_s"].to_numpy(),
        "power_w": found["power_w"].to_numpy(),
        "energy_j": (found["latency_s"] * found["power_w"]).to_numpy(),
    }
    for quantity, values in true.items():
        low, high = getattr(bounds, quantity)
        assert (low <= values * (1 + 1e-9)).all()
        assert (values <= high * (1 + 1e-9)).all()
        at = GRID["mode"].to_list().index(seen[0])
        assert low[at] == pytest.approx(values[at])
        assert high[at] == pytest.approx(values[at])


def test_bounds_compare_modes_that_name_the_same_clocks_alone() -> None:
    found = observe(GRID, lambda *_: 0.010)
    fit = fit_network(some(found, [name(0.5, 1.6)]), GRID)
    both = pl.concat([modes((0.5,)), GRID])
    _, high_s = network_bounds(fit.measured, setting_values(both)).latency_s
    assert math.isnan(high_s[0])
    # the others are bounded as without it: 10 ms · 1.6 / 0.8 = 20 ms where memory is slower
    assert high_s[both["mode"].to_list().index(name(0.5, 0.8))] == pytest.approx(0.020)
    row = predict_modes(fit, both).row(0, named=True)
    assert (row["latency_s"], row["reason"]) == (None, "its memory clock is unknown")


def test_modes_that_differ_by_their_power_limit_alone_bound_nothing() -> None:
    both = pl.concat(
        [
            modes((1.0,), (2.0,)).with_columns(mode=pl.lit(f"cap{watts:g}"), power_limit_w=watts)
            for watts in (100.0, 200.0)
        ]
    )
    fit = fit_network(some(observe(both, lambda *_: 0.010), ["cap200"]), both)
    row = predict_modes(fit, both).row(0, named=True)
    assert (row["interval"], row["latency_low_s"]) == (None, None)
    assert row["reason"].startswith("it differs from the measured modes in its power limit alone")


def test_settings_that_never_varied_bound_a_mode_that_changes_them() -> None:
    # Measured with 8 SMs alone, asked for 4: the time is between the same and twice as long.
    line = modes((0.5, 0.8, 1.3)).with_columns(n_sms=pl.lit(8, pl.Int64))
    fewer = line.with_columns(n_sms=pl.lit(4, pl.Int64))
    fit = fit_network(observe(line, lambda gpu, _: 0.010 / gpu), line)
    for row in predict_modes(fit, fewer).iter_rows(named=True):
        true_s = 0.010 / float(row["mode"].removeprefix("g"))
        assert (row["interval"], row["is_extrapolated"]) == ("bounds", True)
        assert row["latency_low_s"] <= true_s * 1.0001
        assert row["latency_high_s"] >= 2 * true_s


def test_outside_the_measured_clocks_is_marked() -> None:
    inner = [name(g, m) for g in (0.5, 0.8) for m in (0.8, 1.6, 3.2)]
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)
    rows = predict_modes(fit_network(some(found, inner), GRID), GRID)
    marked = rows.filter(pl.col("is_extrapolated")).get_column("mode").to_list()
    assert marked == [name(g, m) for g in (0.3, 1.3) for m in MEMORY]


def test_a_mode_that_does_not_name_a_clock_has_a_reason() -> None:
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)
    fit = fit_network(found, GRID)
    row = predicted(fit, name(0.5), modes((0.5,)))
    assert row["latency_s"] is None
    assert row["reason"] == "its memory clock is unknown"


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, None])
def test_what_is_no_time_is_left_out_and_said(bad: float | None) -> None:
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)
    doctored = found.with_columns(
        latency_s=pl.when(pl.col("mode") == name(0.3, 0.8))
        .then(pl.lit(bad, pl.Float64))
        .otherwise("latency_s")
    )
    fit = fit_network(doctored, GRID)
    assert fit.time is not None
    assert fit.time.n_modes == 11  # of twelve
    assert fit.notes == ("left out, no positive time: 1 of 12 modes",)


def test_modes_of_unknown_clocks_are_left_out_and_named() -> None:
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)
    fit = fit_network(found, GRID.filter(pl.col("mode") != name(0.3, 0.8)))
    assert fit.notes == (f"left out, their clocks are unknown: {name(0.3, 0.8)}",)


def test_a_clock_that_some_modes_lack_is_in_no_term_and_it_is_said() -> None:
    odd = GRID.with_columns(
        memory_hz=pl.when(pl.col("mode") != name(0.3, 0.8)).then(pl.col("memory_hz"))
    )
    fit = fit_network(observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory), odd)
    assert fit.notes == ("the memory clock is left out of the fit: 1 of 12 modes does not say it",)
    assert fit.time is not None
    assert fit.time.settings == ("gpu_hz",)


def test_modes_of_other_devices_are_not_predicted() -> None:
    both = pl.concat([GRID, GRID.with_columns(device=pl.lit("other"))])
    fit = fit_network(observe(GRID, lambda gpu, _: 0.006 / gpu), both)
    assert predict_modes(fit, both)["device"].unique().to_list() == ["board"]


def test_clocks_that_rose_together_do_not_tell_what_limits_the_time() -> None:
    # In each mode both clocks are twice those of the last: arithmetic and traffic look the same.
    both = pl.concat([modes((f,), (2 * f,)) for f in (0.3, 0.6, 1.2, 2.4)])
    fit = fit_network(observe(both, lambda _, memory: 0.020 / memory), both)
    assert predict_modes(fit, both)["time_bound"].to_list() == [None] * 4
    # On the whole grid memory stands out.
    fit = fit_network(observe(GRID, lambda _, memory: 0.020 / memory), GRID)
    assert set(predict_modes(fit, GRID)["time_bound"]) == {"memory"}


def test_without_a_clock_nothing_is_fitted() -> None:
    alike = modes((1.0,)).with_columns(gpu_hz=pl.lit(None, pl.Float64))
    fit = fit_network(observe(modes((1.0,)), lambda *_: 0.010), alike)
    assert fit.time is None
    assert fit.time_reason == "no clock is known of all the measured modes"


def test_the_median_counts_where_a_mode_was_measured_thrice() -> None:
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)
    wild = found.with_columns(latency_s=pl.col("latency_s") * 9)
    fit = fit_network(pl.concat([found, wild, found]), GRID)
    assert fit.measured.get_column("latency_s").max() == pytest.approx(0.006 / 0.3 + 0.004 / 0.8)


def test_measured_and_published_times_are_never_mixed() -> None:
    found = observe(GRID, lambda gpu, memory: 0.006 / gpu + 0.004 / memory)
    others = found.with_columns(latency_s=pl.col("latency_s") * 3, source=pl.lit("published"))
    fit = fit_network(pl.concat([others, found]), GRID)
    assert fit.time is not None
    # at 1.3 and 3.2 GHz: 6 / 1.3 + 4 / 3.2 = 5.865 ms
    assert predicted(fit, name(1.3, 3.2))["latency_s"] == pytest.approx(0.005865, rel=0.01)
    assert fit.notes == ("only measured rows are fitted, not those that are published",)


def test_networks_are_fitted_apart_and_two_at_once_are_refused() -> None:
    both = pl.concat(
        [observe(GRID, lambda gpu, _: 0.006 / gpu, network=network) for network in ("a", "b")]
    )
    assert [fit.network for fit in fit_networks(both, GRID)] == ["a", "b"]
    with pytest.raises(InputError, match="2 networks or devices"):
        fit_network(both, GRID)


def test_predictions_have_the_shape_that_decisions_take() -> None:
    fit = fit_network(observe(GRID, lambda gpu, _: 0.006 / gpu), GRID)
    rows = predict_modes(fit, GRID)
    assert dict(rows.schema) == PREDICTION_SCHEMA
    assert rows.height == 12
    assert predict_modes(fit, GRID.clear()).height == 0


def test_a_time_that_no_clock_changes_is_the_same_in_all_modes() -> None:
    # 66.9 to 67.9 ms at every clock, as a fixed delay of 67 ms gives: not 1 / f.
    times = {mode: 0.0669 + 0.0001 * (at * 7 % 11) for at, mode in enumerate(GRID["mode"])}
    every = observe(GRID, lambda *_: 1.0).with_columns(
        latency_s=pl.col("mode").replace_strict(times, return_dtype=pl.Float64)
    )
    seen = [name(0.3, 0.8), name(0.5, 3.2), name(1.3, 0.8), name(1.3, 3.2)]
    fit = fit_network(some(every, seen), GRID)
    assert fit.time is not None
    assert fit.time.is_same
    for row in predict_modes(fit, GRID).iter_rows(named=True):
        assert row["interval"] == "spread"
        assert row["latency_s"] == pytest.approx(0.0674, abs=0.0008)
        assert row["latency_low_s"] <= times[row["mode"]] <= row["latency_high_s"]
        assert row["latency_high_s"] < 1.06 * row["latency_low_s"]
        assert row["time_bound"] == "launch"


@pytest.mark.parametrize(
    ("law", "is_constant"),
    [
        (lambda gpu, memory: 0.010, True),
        (lambda gpu, memory: 0.0098 + 0.0001 / gpu, True),  # 98 % of it waits
        (lambda gpu, memory: 0.010 / gpu, False),
        (lambda gpu, memory: 0.010 / memory, False),
        (lambda gpu, memory: 0.005 + 0.005 / gpu, False),
        (lambda gpu, memory: 0.004 + 0.003 / memory, False),
    ],
)
def test_only_a_time_without_a_law_is_taken_to_have_none(law: Law, is_constant: bool) -> None:
    seen = [name(0.3, 0.8), name(0.5, 3.2), name(0.8, 0.8), name(1.3, 1.6), name(1.3, 3.2)]
    fit = fit_network(some(observe(GRID, law), seen), GRID)
    assert fit.time is not None
    assert fit.time.is_same == is_constant


def test_two_modes_alike_do_not_tell_that_no_clock_matters() -> None:
    # Both run the memory at one clock: a layer that memory bounds takes as long in both.
    seen = [name(0.8, 1.6), name(1.3, 1.6)]
    fit = fit_network(some(observe(GRID, lambda gpu, memory: 0.010 / memory), seen), GRID)
    assert fit.time is not None
    assert not fit.time.is_same


def test_a_mode_whose_clock_is_not_known_gets_no_time_from_those_that_are_all_alike() -> None:
    fit = fit_network(observe(GRID, lambda *_: 0.067), GRID)
    assert fit.time is not None
    assert fit.time.is_same
    row = predicted(fit, name(0.5), modes((0.5,)))
    assert (row["latency_s"], row["reason"]) == (None, "its memory clock is unknown")


def test_every_mode_without_a_time_has_a_reason_of_its_own() -> None:
    fit = fit_network(observe(modes((0.5, 0.8)), lambda gpu, _: 0.010 / gpu), modes((0.5, 0.8)))
    asked = pl.concat(
        [
            modes((0.6,)).with_columns(mode=pl.lit("cores too"), n_cpus=pl.lit(4, pl.Int64)),
            modes((0.6,)).with_columns(
                mode=pl.lit("clock unknown"), gpu_hz=pl.lit(None, pl.Float64)
            ),
        ]
    )
    found = {row["mode"]: row["reason"] for row in predict_modes(fit, asked).iter_rows(named=True)}
    assert found == {
        "cores too": "no measured mode of this network says its number of cores",
        "clock unknown": "its GPU clock is unknown",
    }
