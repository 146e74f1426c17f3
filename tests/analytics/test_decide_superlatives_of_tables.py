"""What is said of batches, mixes, plans, comparisons and devices holds of their tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.analytics.data.model_frames import MODE_SCHEMA, OBSERVATION_SCHEMA
from mansard.analytics.decisions.batches import batch_table
from mansard.analytics.decisions.mix_records import Mix, Task
from mansard.analytics.decisions.next_modes import plan_next
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.pages.words.comparisons import with_remarks
from mansard.analytics.pages.words.next_modes import plan_in_words
from mansard.core.errors import UsageError
from tests.analytics.answers import decide_mix
from tests.analytics.claim_checks import kind_of, span, state
from tests.analytics.decide_factory import frame, row
from tests.analytics.test_decide_superlatives import CLOCKS, predictions

SCORES = pl.DataFrame(schema={"score_id": pl.String, "work_flop": pl.Float64}).with_columns(
    traffic_bytes=pl.lit(None, pl.Float64)
)
NOTHING_RUN = pl.DataFrame(schema=OBSERVATION_SCHEMA)
_NEAR = 1.01
_WORDS = {"GPU clock": "gpu_hz", "memory clock": "memory_hz", "number of SMs": "n_sms"}


@st.composite
def curves(draw: st.DrawFn) -> list[dict[str, Any]]:
    """One network in one mode at several batches, of which some are near the best."""
    batches = draw(st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=5, unique=True))
    kinds = st.sampled_from(["measured", "modelled", "bounds", "roof", "timeless", "powerless"])
    common = draw(kinds)
    found = []
    for batch in batches:
        kind = draw(st.sampled_from([common, common, draw(kinds)]))
        if kind == "timeless":
            found.append(row("15W", None, batch=batch, reason="its CPU clock is unknown"))
            continue
        item_s = draw(st.sampled_from([0.01, 0.01004, 0.0101, 0.0103, 0.02]))
        energy = None if kind == "powerless" else batch * draw(st.sampled_from([0.1, 0.1005, 0.2]))
        interval = {"bounds": "bounds", "roof": "roof"}.get(kind, "spread")
        source = "published" if kind == "measured" else "modelled"
        more = {"interval": interval, "source": source, "spread": 1.2}
        found.append(row("15W", item_s * batch, energy, batch=batch, **more))  # type: ignore[arg-type]
    return found


@settings(max_examples=300)
@given(rows=curves())
def test_a_batch_is_called_the_best_or_near_it_where_it_is(rows: list[dict[str, Any]]) -> None:
    table = with_remarks(batch_table(frame(rows), SCORES, NOTHING_RUN))
    for found in table.iter_rows(named=True):
        for remark in (found["remark"] or "").split("; ") if found["remark"] else []:
            what = "energy" if "energy" in remark else "rate"
            known = {each["batch"]: of[1] for each in rows if (of := span_of(each, what))}
            best, mine = min(known.values()), known[found["batch"]]
            assert len(known) > 1
            assert "bounds" not in {kind_of(each) for each in rows}
            assert ("of those known" in remark) == (len(known) < len(rows))
            if remark.startswith("smallest within 1 %"):
                near = [batch for batch, value in known.items() if value <= best * _NEAR]
                assert mine > best
                assert found["batch"] == min(near)
            else:
                assert mine == pytest.approx(best, rel=1e-9)


def span_of(each: dict[str, Any], what: str) -> tuple[float, float, float] | None:
    return None if each["latency_s"] is None else span(each, what)


def test_a_smaller_batch_near_the_best_is_not_called_the_best() -> None:
    # 100, 199 and 200 items/s
    rows = [row("15W", 0.01), row("15W", 2 / 199, batch=2), row("15W", 0.02, batch=4)]
    found = with_remarks(batch_table(frame(rows), SCORES, NOTHING_RUN))["remark"].to_list()
    assert found == [None, "smallest within 1 % of the most items per second", None]


@settings(max_examples=300)
@given(
    eyes=predictions(),
    ears=predictions(),
    rates=st.tuples(st.sampled_from([1.0, 20.0, 90.0]), st.sampled_from([1.0, 50.0])),
    limit_s=st.sampled_from([None, 0.0045, 0.011, 0.05]),
)
def test_a_mix_that_no_mode_keeps_up_with_is_too_much_for_every_mode(
    eyes: list[dict[str, Any]],
    ears: list[dict[str, Any]],
    rates: tuple[float, float],
    limit_s: float | None,
) -> None:
    tasks = {"eyes": eyes, "ears": ears}
    table = [{**each, "network": name} for name, rows in tasks.items() for each in rows]
    wanted = Wanted(minimise="latency", max_latency_s=limit_s)
    pairs = zip(tasks, rates, strict=True)
    mix = Mix(
        tasks=tuple(Task(network=n, rate_per_s=r, batches=(1, 2, 4, 8, 16)) for n, r in pairs)
    )
    try:
        answer = decide_mix(frame(table), mix, wanted, {})
    except UsageError:
        return
    text = answer.sentence.replace("\u00a0", " ")
    busy = [
        [rate * _least_item_s(each, wanted) for each in rows]
        for rows, rate in zip(tasks.values(), rates, strict=True)
    ]
    if text.startswith("No mode keeps up"):
        assert sum(map(min, busy)) > 1 - 1e-6, text
    if match := re.match(r"No mode runs ([\w, ]+) within the limits", text):
        for name in match[1].split(", "):
            states = [state(e, wanted) for e in tasks[name] if e["latency_s"] is not None]
            assert set(states) == {"broken"}, text
            assert len(states) == len(tasks[name]), text
    plans = (("One mode for 2 networks", answer.one_mode), ("Modes in turn", answer.schedule))
    for name, plan in plans:
        if plan is None:
            continue
        told = text.partition(f"{name}: ")[2]
        assert told.startswith(", ".join(plan.modes)), text
        is_bounded = any(share.interval in {"bounds", "roof"} for share in plan.shares)
        words = told.removeprefix(", ".join(plan.modes))
        assert words.startswith(", busy for at") == is_bounded, text


def _least_item_s(each: dict[str, Any], wanted: Wanted) -> float:
    """The least that an item may take: 5 % of spreads are below their 5th percentile and more."""
    if each["latency_s"] is None:
        return 0.0
    if state(each, wanted) == "broken":
        return math.inf
    low, value, _ = span(each, "rate") or (0.0, 0.0, 0.0)
    if kind_of(each) == "spread":
        # of 95 %: 1.96 standard deviations down; of 90 %: 1.2816
        return value * math.exp(-math.log(value / low) * 1.2816 / 1.96)
    return low if kind_of(each) in {"bounds", "roof"} else value


@settings(max_examples=300)
@given(
    clocks=st.lists(
        st.tuples(*(CLOCKS[name] for name in ("gpu_hz", "memory_hz", "n_sms"))),
        min_size=2,
        max_size=8,
        unique=True,
    ),
    n=st.integers(1, 4),
)
def test_a_plan_names_the_place_of_a_clock_among_those_of_all_modes(
    clocks: Sequence[tuple[float, float, int]], n: int
) -> None:
    modes = pl.DataFrame(
        [
            dict.fromkeys(MODE_SCHEMA)
            | {"device": "board", "mode": f"m{at}", "gpu_hz": g, "memory_hz": m, "n_sms": sms}
            for at, (g, m, sms) in enumerate(clocks)
        ],
        schema=MODE_SCHEMA,
    )
    plan = plan_in_words(plan_next(modes, n=n))
    assert len(plan.picks) == min(n, modes.height)
    assert (plan.n_candidates, plan.n_measured) == (modes.height, 0)
    for pick in plan.picks:
        for word, column in _WORDS.items():
            of = modes[column].to_list()
            if f"highest {word}" in pick.reason:
                assert pick.settings[column] == max(of)
            if f"lowest {word}" in pick.reason:
                assert pick.settings[column] == min(of)
