"""Every superlative of a recommendation holds of the rows beside it, whatever these are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.decisions.records import OBJECTIVES, Recommendation, Wanted
from tests.analytics import claim_checks as checks
from tests.analytics.answers import recommend_each
from tests.analytics.decide_factory import DEVICE, frame, row

NAMES = ("7W", "15W", "25W", "30W", "MAXN", "gpu306-emc665")
# A grid, so that values tie.
TIMES = st.sampled_from([0.004, 0.005, 0.0051, 0.0066, 0.01, 0.0202, 0.05])
POWERS = st.sampled_from([3.0, 3.05, 5.0, 8.0, 8.1, 20.0])
SPREADS = st.sampled_from([1.01, 1.03, 1.3, 2.0, 4.0])
KINDS = ("measured", "modelled", "bounds", "roof", "bare", "lopsided", "powerless", "timeless")
CLOCKS = {
    "gpu_hz": st.sampled_from([306e6, 612e6, 1300e6]),
    "memory_hz": st.sampled_from([2133e6, 3199e6]),
    "n_sms": st.sampled_from([4, 8]),
    "cpu_hz": st.sampled_from([1.2e9, 1.7e9]),
}


@st.composite
def predictions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of one network: some modes, some batches, of all kinds that there are."""
    modes = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5, unique=True))
    batches = draw(st.lists(st.sampled_from([1, 4, 8]), min_size=1, max_size=2, unique=True))
    common = draw(st.sampled_from(KINDS))
    return [
        _row(draw, mode, batch, draw(st.sampled_from([common, *KINDS])))
        for mode in modes
        for batch in batches
    ]


def _row(draw: st.DrawFn, mode: str, batch: int, kind: str) -> dict[str, Any]:
    if kind == "timeless":
        return row(mode, None, batch=batch, reason="its CPU clock is unknown")
    time, power, spread = draw(TIMES) * batch, draw(POWERS), draw(SPREADS)
    more: dict[str, object] = {
        "measured": {"source": "published", "spread": min(spread, 1.3)},
        "bounds": {"interval": "bounds", "is_extrapolated": True, "spread": spread},
        "roof": {"interval": "roof", "spread": spread},
        "bare": {},
    }.get(kind, {"spread": spread})
    energy = None if kind == "powerless" else time * power
    found = row(mode, time, energy, batch=batch, **more)  # type: ignore[arg-type]
    if energy is None:
        found["reason"] = "power: the table has no such column"
    if kind == "lopsided":  # farther up than down, as where one side of a fit is known better
        found["latency_high_s"] = time * spread**3
    return found


@st.composite
def questions(draw: st.DrawFn) -> Wanted:
    """An objective, and none to three limits near the values that there are."""

    def maybe(values: st.SearchStrategy[float]) -> float | None:
        return draw(st.one_of(st.none(), st.none(), values))

    return Wanted(
        minimise=draw(st.sampled_from(OBJECTIVES)),
        max_latency_s=maybe(st.sampled_from([0.0045, 0.0065, 0.011, 0.03, 0.3])),
        max_power_w=maybe(st.sampled_from([2.9, 4.0, 8.05, 15.0])),
        max_energy_j=maybe(st.sampled_from([0.012, 0.03, 0.1, 0.4])),
        min_fps=maybe(st.sampled_from([15.0, 90.0, 190.0])),
        probability=draw(st.sampled_from([0.5, 0.9, 0.99])),
        falls_back=draw(st.booleans()),
    )


@st.composite
def settings_of(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Of each mode its clocks, of which some are not known in any, or in one."""
    absent = draw(st.sets(st.sampled_from(sorted(CLOCKS)), max_size=3))
    found = {
        name: {column: None if column in absent else draw(CLOCKS[column]) for column in CLOCKS}
        for name in NAMES
    }
    if draw(st.booleans()):
        found[draw(st.sampled_from(NAMES))]["memory_hz"] = None
    return found


def asked(
    rows: list[dict[str, Any]], wanted: Wanted, clocks: dict[str, dict[str, Any]], device: str
) -> tuple[Recommendation, list[dict[str, Any]]]:
    import polars as pl

    names = dict.fromkeys(each["mode"] for each in rows)
    modes = [
        dict.fromkeys(MODE_SCHEMA) | clocks[name] | {"device": device, "mode": name}
        for name in names
    ]
    table = frame([{**each, "device": device} for each in rows])
    (found,) = recommend_each(table, pl.DataFrame(modes, schema=MODE_SCHEMA), wanted)
    return found, modes


@settings(max_examples=600)
@given(
    rows=predictions(),
    wanted=questions(),
    clocks=settings_of(),
    device=st.sampled_from([DEVICE, "Jetson Orin NX 16GB"]),
)
def test_what_is_said_of_a_choice_holds_of_all_rows(
    rows: list[dict[str, Any]], wanted: Wanted, clocks: dict[str, dict[str, Any]], device: str
) -> None:
    found, modes = asked(rows, wanted, clocks, device)
    event(found.verdict)
    wanted = Wanted(**{**vars(wanted), "minimise": found.minimise})
    checks.check_counts(found, rows, wanted)
    if found.choice is None:
        return
    checks.check_baselines(found, modes, rows)
    checks.check_changes(found, rows)
    checks.check_best_measured(found, rows, wanted)
    if found.verdict == "feasible":
        event(found.claim)
        assert f" {found.claim} for " in found.sentence.replace(
            "By the roofline bounds alone ", " "
        )
        checks.check_claim(found.claim, found, rows, wanted)
        checks.check_trades(found, rows)
    checks.check_likeliest(found, rows, wanted)
    checks.check_nearest(found, rows, wanted)


def test_the_least_is_of_the_modes_that_keep_the_limit() -> None:
    # 15W needs 75.3 mJ and MAXN 84.9 mJ, in 6.51 and 3.96 ms: 15W breaks the limit of 4.5 ms.
    rows = [
        row("15W", 0.00651, 0.0753, spread=1.03, source="published"),
        row("30W", 0.00420, 0.0990, spread=1.03, source="published"),
        row("MAXN", 0.00396, 0.0849, spread=1.03, source="published"),
    ]
    found, _ = asked(rows, Wanted(max_latency_s=0.0045), {n: {} for n in NAMES}, DEVICE)
    assert found.claim == "uses the least energy of the modes that meet the limit"
    alone, _ = asked(rows[::2], Wanted(max_latency_s=0.0045), {n: {} for n in NAMES}, DEVICE)
    assert alone.claim == "is the only mode that meets the limit"


def test_what_only_has_bounds_is_compared_by_its_ends() -> None:
    # 7W takes 7 to 31 ms: 7 / 5 to 31 / 4 of MAXN's 4 to 5 ms, which is ×1.4 to ×7.75
    rows = [
        row("7W", 0.015, interval="bounds", is_extrapolated=True)
        | {"latency_low_s": 0.007, "latency_high_s": 0.031},
        row("MAXN", 0.0045, source="published", interval="spread")
        | {"latency_low_s": 0.004, "latency_high_s": 0.005},
    ]
    clocks: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    limited = Wanted(minimise="latency", max_latency_s=0.0039)
    found, _ = asked(rows, limited, clocks, DEVICE)
    assert found.verdict == "infeasible"
    wanted = Wanted(minimise="latency", batches=(1,))
    (saving,) = asked(rows, wanted, clocks, DEVICE)[0].savings
    assert saving.mode == "MAXN"
    from mansard.analytics.decisions.alternatives import Baseline
    from tests.analytics.answers import recommend

    only_slow = recommend(
        frame(rows[:1] + rows[1:]), Wanted(minimise="latency"), [Baseline("another mode", "7W")]
    )
    (other,) = only_slow.savings
    assert other.latency_ratio is None
    assert other.unknown["latency_ratio"] == "only bounds are known of one of the two"
    # 4 / 31 = 0.129 and 5 / 7 = 0.714
    assert other.latency_ratio_low == pytest.approx(0.129, abs=1e-3)
    assert other.latency_ratio_high == pytest.approx(0.714, abs=1e-3)
    assert "time between −87\u00a0% and −29\u00a0%" in only_slow.sentence
