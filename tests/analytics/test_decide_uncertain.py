"""What a recommendation says where little is known: bounds, roofs, missing energies, errors."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.decisions.records import Recommendation, Wanted
from mansard.analytics.pages.words.recommendation import remedy
from tests.analytics.answers import recommend, recommend_each
from tests.analytics.decide_factory import DEVICE, frame, row


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def mode_of(found: Recommendation) -> str:
    assert found.choice is not None
    return found.choice.mode


# 8.56 W and 6.04 W as measured; 7W is modelled between 22 and 61 ms, in truth 82.9 ms.
MEASURED = [
    row("25W", 0.02127, 0.182, spread=1.03, source="published"),
    row("15W", 0.0310, 0.187, spread=1.03, source="published"),
]
SEVEN = row("7W", 0.0374, 0.164, spread=1.63, is_extrapolated=True)


def test_an_extrapolated_mode_is_never_likely_to_keep_a_limit() -> None:
    found = recommend(frame([SEVEN]), Wanted(max_latency_s=0.060))
    assert found.verdict == "uncertain"
    assert found.checks[0].holds == "unknown"
    assert found.checks[0].probability is None
    assert "%" not in found.sentence
    assert plain(found.sentence).startswith(
        "It is uncertain whether any mode meets the 60 ms limit for"
    )


def test_an_extrapolated_mode_is_not_preferred_for_a_gain_that_is_no_more_than_its_error() -> None:
    found = recommend(frame([*MEASURED, SEVEN]), Wanted())
    assert mode_of(found) == "25W"
    # 164 mJ, or 101 to 267 mJ, against 182 mJ
    assert "of the measured modes" in found.sentence
    assert found.measure_next is not None
    assert found.measure_next.candidate.mode == "7W"
    sure = row("7W", 0.0374, 0.080, spread=1.3, is_extrapolated=True)
    # ln(182 / 80) = 0.82, beyond ln 1.3 = 0.26 and the 0.03 of what was measured
    assert mode_of(recommend(frame([*MEASURED, sure]), Wanted())) == "7W"


@pytest.mark.parametrize(
    ("limit_s", "verdict", "holds"),
    [(0.080, "feasible", "kept"), (0.060, "uncertain", "unknown"), (0.008, "infeasible", "broken")],
)
def test_bounds_keep_break_or_leave_open(limit_s: float, verdict: str, holds: str) -> None:
    # 25 ms between 9 and 70 ms
    bounds = row("7W", 0.025, 0.1, spread=2.8, interval="bounds")
    found = recommend(frame([bounds]), Wanted(minimise="latency", max_latency_s=limit_s))
    assert (found.verdict, found.checks[0].holds) == (verdict, holds)
    assert found.checks[0].probability is None
    assert found.n_feasible == (verdict == "feasible")


def test_a_roof_keeps_no_limit_and_has_no_probability() -> None:
    roofs = [
        row("15W", 0.0064, 0.10, spread=1.05, interval="roof"),
        row("MAXN", 0.0032, 0.12, spread=1.05, interval="roof"),
    ]
    found = recommend(frame(roofs), Wanted(max_latency_s=0.020))
    assert (found.verdict, found.n_feasible) == ("uncertain", 0)
    assert all(check.probability is None for check in found.checks)
    assert "at best" in found.sentence
    assert found.most_excess is None
    assert found.equals == ()
    broken = recommend(frame(roofs), Wanted(max_latency_s=0.003))
    # At best 3.2 / 1.05 = 3.05 ms
    assert (broken.verdict, broken.n_broken) == ("infeasible", 2)
    least = recommend(frame(roofs), Wanted())
    assert least.sentence.startswith("By the roofline bounds alone 15W uses the least energy")


GPU_MODES = pl.DataFrame(
    [
        {"device": DEVICE, "mode": "7W", "gpu_hz": 306e6, "n_sms": 4},
        {"device": DEVICE, "mode": "15W", "gpu_hz": 612e6, "n_sms": 8},
        {"device": DEVICE, "mode": "25W", "gpu_hz": 918e6, "n_sms": 8},
    ],
    schema=MODE_SCHEMA,
)
# 1.2 and 0.6 and 0.4 ms; the smaller mode draws less, 12 / 8 / 6 W.
ROOFS = [
    row("7W", 0.0012, 0.0072, interval="roof"),
    row("15W", 0.0006, 0.0048, interval="roof"),
    row("25W", 0.0004, 0.0048, interval="roof"),
]


def test_of_roofs_that_meet_a_limit_at_the_slowest_recorded_ratio_the_best_is_chosen() -> None:
    # From 1.2 · 1.13 = 1.36 ms; at most 1.25 times 11.4 + 21.2 · (1.2 − 0.329) / 1.601 = 22.9 ms,
    # so 28.7 ms; likewise 0.6 ms 18.7 ms and 0.4 ms 15.4 ms.
    asked = Wanted(minimise="power", max_latency_s=0.033)
    found = recommend(frame(ROOFS), asked, modes=GPU_MODES)
    assert (found.verdict, mode_of(found)) == ("uncertain", "7W")
    assert found.claim == "expected to meet the limit"
    assert plain(found.sentence).startswith(
        "7W is expected to meet the 33 ms limit for net in fp16: between 1.3 and 29 ms with "
        "TensorRT, as recorded networks suggest; of 3 such modes it draws the least power by the "
        "roofs"
    )
    # 7W misses 25 ms, the others do not: 15W draws 8 W, 25W 12 W.
    found = recommend(frame(ROOFS), replace(asked, max_latency_s=0.025), modes=GPU_MODES)
    assert mode_of(found) == "15W"
    # 1 / 18.7 ms are 53.4 items per second, 1 / 15.4 ms 64.9.
    found = recommend(frame(ROOFS), Wanted(minimise="power", min_fps=53), modes=GPU_MODES)
    assert mode_of(found) == "15W"
    found = recommend(frame(ROOFS), Wanted(minimise="power", min_fps=64), modes=GPU_MODES)
    assert mode_of(found) == "25W"
    # Roofs that are no bounds have no such ratios.
    found = recommend(frame(ROOFS), asked, modes=GPU_MODES, has_ratios=False)
    assert found.claim == "may meet the limit"


def test_of_roofs_that_may_miss_a_limit_the_largest_margin_is_chosen() -> None:
    within = Wanted(minimise="power", max_latency_s=0.033)
    too_short = replace(within, max_latency_s=0.014)
    found = recommend(frame(ROOFS), too_short, modes=GPU_MODES)
    assert (mode_of(found), found.claim) == ("25W", "may meet the limit")
    # No ratio of an energy is recorded.
    both = replace(within, max_energy_j=0.2)
    assert recommend(frame(ROOFS), both, modes=GPU_MODES).claim == "may meet the limits"
    # Nor one of a CPU, whose modes have no clock of a GPU.
    assert recommend(frame(ROOFS), within).claim == "may meet the limit"
    found = recommend(frame(ROOFS), Wanted(max_latency_s=0.0003), modes=GPU_MODES)
    assert found.verdict == "infeasible"


def test_roofs_that_differ_by_less_than_recorded_ratios_of_modes_are_ties() -> None:
    # 1.2 / 0.6 = 2 > 1.44, 0.6 / 0.4 = 1.5 > 1.44; 0.6 / 0.45 = 1.33.
    found = recommend(frame(ROOFS), Wanted(minimise="latency"), modes=GPU_MODES)
    assert found.equals == ()
    near = [*ROOFS[:2], row("25W", 0.00045, 0.0048, interval="roof")]
    found = recommend(frame(near), Wanted(minimise="latency"), modes=GPU_MODES)
    assert [one.mode for one in found.equals] == ["15W"]


def test_modes_of_the_board_that_were_not_compared_are_named_where_none_meets_a_limit() -> None:
    device = "Jetson Orin Nano 8GB Super (published)"
    times = [row(mode, 0.02, None, spread=1.1, device=device) for mode in ("7W", "15W")]
    modes = pl.DataFrame(
        [{"device": device, "mode": mode, "gpu_hz": 6e8} for mode in ("7W", "15W")],
        schema=MODE_SCHEMA,
    )
    asked = Wanted(minimise="latency", max_latency_s=0.005)
    (found,) = recommend_each(frame(times), modes, asked)
    assert found.sentence.endswith("Not compared: 25W and MAXN_SUPER; name them with --mode.")
    (found,) = recommend_each(frame(times), modes, replace(asked, max_latency_s=0.05))
    assert "Not compared" not in found.sentence


def test_without_energies_the_lowest_mode_that_meets_the_limit_is_named() -> None:
    times = [row(mode, time_s, None, spread=1.1) for mode, time_s in (("7W", 0.02), ("25W", 0.01))]
    asked = Wanted(falls_back=True, max_latency_s=0.03)
    (found,) = recommend_each(frame(times), GPU_MODES.filter(pl.col("mode") != "15W"), asked)
    assert mode_of(found) == "25W"
    assert found.sentence.endswith("7W is the lowest mode that meets the 30\u00a0ms limit.")
    asked = Wanted(minimise="power", max_latency_s=0.03)
    (found,) = recommend_each(frame(times), GPU_MODES.filter(pl.col("mode") != "15W"), asked)
    assert found.choice is None
    assert found.sentence.endswith("7W is the lowest mode that meets the 30\u00a0ms limit.")
    (found,) = recommend_each(frame(times), GPU_MODES, replace(asked, max_latency_s=0.005))
    assert "lowest" not in found.sentence


def test_a_measured_mode_is_taken_before_any_roof() -> None:
    # A roof of 0.10 J says that it is at least that.
    rows = [row("15W", 0.0064, 0.10, interval="roof"), *MEASURED]
    assert mode_of(recommend(frame(rows), Wanted())) == "25W"


@given(st.floats(0.001, 1.0), st.sampled_from(["bounds", "roof", None]))
def test_no_probability_stands_on_anything_but_a_spread(limit_s: float, interval: str) -> None:
    rows = [row("a", 0.02, 0.2, spread=1.5, interval=interval), row("b", 0.03, 0.1, spread=2.0)]
    rows[1]["interval"] = interval
    found = recommend(frame(rows), Wanted(max_latency_s=limit_s))
    assert all(check.probability is None for check in found.checks)
    assert "probability" not in "".join(each.why_lost for each in found.neighbours)
    assert "likeliest" not in found.sentence


def test_where_some_have_no_power_it_is_not_said_that_none_keeps_a_limit() -> None:
    # Three draw 20 W and more; of seventeen nothing is known.
    known = [row(f"known{at}", 0.01, 0.2 + 0.01 * at, spread=1.02) for at in range(3)]
    lacking = [row(f"mode{at}", 0.02, reason="no power meter was read") for at in range(17)]
    found = recommend(frame([*known, *lacking]), Wanted(minimise="latency", max_power_w=15.0))
    assert found.verdict == "unknown"
    assert (found.n_candidates, found.n_broken, found.n_unknown) == (20, 3, 17)
    assert plain(found.sentence).startswith(
        "It is unknown whether any mode meets the 15 W limit for net: 3 candidates of 20 cannot, "
        "and of 17 the power is unknown."
    )
    assert "No mode" not in found.sentence
    assert any("of 17 of 20 candidates is unknown" in note for note in found.notes)


def test_what_breaks_another_limit_is_not_unknown() -> None:
    lacking = [row(f"mode{at}", 0.02, reason="no power meter was read") for at in range(17)]
    found = recommend(frame(lacking), Wanted(max_power_w=15.0, max_latency_s=0.010))
    # 20 ms of at most 10 ms, whatever the power is
    assert (found.verdict, found.n_broken, found.n_unknown) == ("infeasible", 17, 0)


def test_counts_reasons_and_checks_agree() -> None:
    rows = [
        row("sure", 0.010, 0.3, spread=1.1),
        row("bare", 0.010, 0.2),
        row("bounded", 0.015, 0.1, spread=2.0, interval="bounds"),
    ]
    found = recommend(frame(rows), Wanted(max_latency_s=0.020))
    assert (mode_of(found), found.n_feasible) == ("sure", 1)
    assert plain(found.why[0]).startswith(
        "1 of 3 candidates meets each limit with a probability of at least 90 %, 2 are uncertain"
    )
    lost = {each.candidate.mode: each.why_lost for each in found.neighbours}
    assert all("unknown" in why for why in lost.values())


def test_the_better_known_of_two_near_values_is_taken() -> None:
    # σ = ln 1.6 / 1.96 = 0.24: 0.100 · e^0.12 = 0.1127 > 0.105 · e^0.005 = 0.1055
    rows = [row("wide", 0.01, 0.100, spread=1.6), row("narrow", 0.01, 0.105, spread=1.02)]
    found = recommend(frame(rows), Wanted())
    assert mode_of(found) == "narrow"
    assert "its uncertainty counted" in found.sentence


def test_a_modelled_choice_stands_beside_the_best_measured_one() -> None:
    rows = [*MEASURED, row("20W", 0.024, 0.120, spread=1.05)]
    found = recommend(frame(rows), Wanted(max_latency_s=0.030))
    assert mode_of(found) == "20W"
    assert found.measured is not None
    assert found.measured.candidate.mode == "25W"
    # 120 / 182 − 1
    assert "meets every limit" in found.measured.why_lost
    assert plain(found.measured.why_lost).endswith("energy −34 %")
    assert found.measure_next is not None
    assert found.measure_next.candidate.mode == "20W"


def test_a_measured_time_by_a_hair_is_measured_again() -> None:
    rows = [row("MAXN", 0.0199, 0.2, spread=1.03, source="measured")]
    found = recommend(frame(rows), Wanted(max_latency_s=0.020))
    # z = ln(20 / 19.9) / (ln 1.03 / 1.96) = 0.332, Φ = 0.630
    assert found.verdict == "uncertain"
    assert found.checks[0].probability == pytest.approx(0.630, abs=1e-3)
    assert found.measure_next is not None
    assert "again" in found.measure_next.what
    assert found.measure_next.how == "more repetitions narrow its interval"


def test_without_energies_the_fastest_is_recommended_and_said_unless_energy_was_asked_for() -> None:
    rows = [row("15W", 0.04, reason="no power meter was read"), row("30W", 0.02)]
    found = recommend(frame(rows), Wanted(falls_back=True))
    assert (found.minimise, mode_of(found)) == ("latency", "30W")
    assert any("compared by their times" in note for note in found.notes)
    asked = recommend(frame(rows), Wanted(minimise="energy"))
    assert (asked.verdict, asked.minimise) == ("unknown", "energy")
    # An energy of one mode alone is compared with nothing.
    lone = recommend(frame([row("15W", 0.04, 0.4), row("30W", 0.02)]), Wanted(falls_back=True))
    assert mode_of(lone) == "30W"


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("no power meter was read", "mansard doctor"),
        ("no energy was measured in this mode: that needs a power meter", "mansard doctor"),
        ("no constant power: not identifiable: the interval is ± 80 % of the value", "longer"),
        ("no constant power: too few points: 3, it takes 5", "bench --profile full"),
        ("power was measured in no mode", "in 4 modes"),
        ("power: the table has no such column", "import"),
        ("its GPU clock is unknown", "clocks"),
    ],
)
def test_the_remedy_is_one_against_the_reason(reason: str, says: str) -> None:
    assert says in remedy(reason)
    assert ("doctor" in remedy(reason)) == (says == "mansard doctor")


@given(
    st.floats(0.001, 1.0),
    st.lists(
        st.tuples(
            st.floats(0.001, 1.0),
            st.floats(0.01, 10.0),
            st.floats(1.0, 5.0),
            st.sampled_from(["spread", "bounds", "roof", None]),
            st.booleans(),
        ),
        max_size=4,
    ),
)
def test_where_a_measured_mode_keeps_the_limit_the_answer_is_definite(
    latency_s: float, others: list[tuple[float, float, float, str | None, bool]]
) -> None:
    # Measured once, ± 3.3 %: 5 % below its limit it keeps it with more than 90 %.
    rows = [row("measured", latency_s, 1.0, spread=1.034, source="published")]
    for number, (other_s, energy_j, spread, interval, is_fit) in enumerate(others):
        other = row(f"other{number}", other_s, energy_j, spread=spread, is_calibrated=is_fit)
        rows.append(other | {"interval": interval, "is_extrapolated": interval == "bounds"})
    found = recommend(frame(rows), Wanted(max_latency_s=latency_s * 1.05))
    assert found.verdict == "feasible"


def test_bounds_of_a_fit_keep_a_limit_with_a_probability() -> None:
    # 25 ms, between 10 and 62.5 ms: 2 standard deviations to either side. Φ(2 · ln(50 / 25) /
    # ln 2.5) = Φ(1.51294) = 0.93485, and Φ(2 · ln(40 / 25) / ln 2.5) = Φ(1.02590) = 0.84753.
    fit = row("MAXN", 0.025, 0.1, spread=2.5, interval="bounds", is_calibrated=True)
    for limit_s, chance, verdict in ((0.050, 0.93485, "feasible"), (0.040, 0.84753, "uncertain")):
        found = recommend(frame([fit]), Wanted(max_latency_s=limit_s))
        assert found.verdict == verdict
        assert found.checks[0].probability == pytest.approx(chance, abs=1e-4)
    assert plain(found.sentence).startswith(
        "No mode is known to meet the 40 ms limit for net in fp16 with a probability of 90 %. MAXN "
        "is likeliest to, with 85 %"
    )


def test_an_open_answer_names_the_measurement_of_the_largest_expected_gain() -> None:
    # Times ± 20 %, σ = ln 1.2 / 1.96 = 0.0930; limit 20 ms. "fast" keeps it with Φ(ln(20 / 19) /
    # σ) = Φ(0.5514) = 0.709, "thrifty" with Φ(ln(20 / 20.2) / σ) = Φ(-0.107) = 0.457, and takes a
    # quarter of the energy. The gain of "fast", the dearest: 0.709 · ln 2 = 0.492; of "thrifty":
    # 0.457 · (ln 2 + ln 4) = 0.951.
    rows = [row("fast", 0.019, 0.4, spread=1.2), row("thrifty", 0.0202, 0.1, spread=1.2)]
    found = recommend(frame(rows), Wanted(max_latency_s=0.020))
    assert (found.verdict, mode_of(found)) == ("uncertain", "fast")
    assert found.measure_next is not None
    assert found.measure_next.candidate.mode == "thrifty"
    assert "; it does with 46 %)" in plain(found.measure_next.what)
    # At nearly the same energy: 0.457 · (ln 2 + ln(4 / 3.9)) = 0.328, and "fast" settles it best.
    rows[1] = row("thrifty", 0.0202, 0.39, spread=1.2)
    found = recommend(frame(rows), Wanted(max_latency_s=0.020))
    assert found.measure_next is not None
    assert found.measure_next.candidate.mode == "fast"


def test_what_was_measured_is_not_named_again_while_others_are_open() -> None:
    # Measured at 20.1 ± 3.4 % ms it keeps 20 ms with 38 %; nothing else was measured.
    ran = row("ran", 0.0201, 0.1, spread=1.034, source="published")
    found = recommend(frame([ran, row("new", 0.022, 0.3, spread=1.3)]), Wanted(max_latency_s=0.02))
    assert found.verdict == "uncertain"
    assert found.measure_next is not None
    assert found.measure_next.candidate.mode == "new"
    alone = recommend(frame([ran]), Wanted(max_latency_s=0.02))
    assert alone.measure_next is not None
    assert alone.measure_next.candidate.mode == "ran"
