"""Checks every superlative of a recommendation against the rows that it stands beside.

Written from what the words mean, without the code that makes them: rows are dicts, probabilities
come from the normal distribution, and each kind of value bounds what is true in its own way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import pytest

from mansard.analytics.decisions.records import Candidate, Recommendation, Wanted

Row = Mapping[str, Any]
_NORMAL = NormalDist()
_Z = _NORMAL.inv_cdf(0.975)
_SLACK = 1e-6
_SUPERLATIVE = (
    r"uses? the least energy|(?:is|be) fastest|(?:has|have) the least product of energy and time|"
    r"draws? the least power"
)
_CLAIM = re.compile(
    r"^(?:is predicted to |may )?(?:" + _SUPERLATIVE + r")"
    r"(?P<counted> with its uncertainty counted)?(?P<group> of the .*)?$"
)
_ONLY = re.compile(r"^is the only(?P<group> .*)$")


def kind_of(row: Row) -> str:
    """How a value is known: outside the measured modes a spread is no more than bounds."""
    is_guess = row["interval"] == "spread" and row["is_extrapolated"]
    return "bounds" if is_guess and not is_measured(row) else row["interval"] or ""


def is_measured(row: Row) -> bool:
    return bool(row["source"] != "modelled")


def span(row: Row, what: str) -> tuple[float, float, float] | None:
    """Low, value and high of a time, energy of an item, power, seconds of an item, or product."""
    if what == "edp":
        both = span(row, "energy"), span(row, "latency")
        return None if None in both else tuple(x * y for x, y in zip(*both, strict=True))  # type: ignore[arg-type,return-value]
    name = {"latency": "latency_s", "rate": "latency_s", "energy": "energy_j", "power": "power_w"}
    column = name[what]
    head, unit = column.rsplit("_", 1)
    value, n = row[column], row["batch"] if what in {"energy", "rate"} else 1
    if value is None:
        return None
    ends = [row.get(f"{head}_{end}_{unit}") for end in ("low", "high")]
    low, high = (value if end is None else end for end in ends)
    return low / n, value / n, high / n


def limits_asked(wanted: Wanted) -> list[tuple[str, float]]:
    """Each limit as the most that a span may be."""
    asked = [
        ("latency", wanted.max_latency_s),
        ("power", wanted.max_power_w),
        ("energy", wanted.max_energy_j),
        ("rate", None if wanted.min_fps is None else 1 / wanted.min_fps),
    ]
    return [(what, most) for what, most in asked if most is not None]


def probability(row: Row, what: str, most: float) -> float | None:
    """P(value ≤ most) of a spread; of others 0, 1 or not known."""
    of = span(row, what)
    if of is None:
        return None
    low, value, high = of
    kind = kind_of(row)
    most *= 1 + 1e-9
    if kind == "spread" and high > low:
        end = high if most >= value else low
        if end == value:
            return 1.0 if most >= value else 0.0
        return _NORMAL.cdf(_Z * math.log(most / value) / abs(math.log(end / value)))
    if kind in {"spread", "bounds"}:
        return 1.0 if high <= most else 0.0 if low > most else None
    if kind == "roof":
        return 0.0 if what != "power" and low > most else None
    return 0.0 if value > most else None


def state(row: Row, wanted: Wanted) -> str:
    """ "kept", "broken" or "open" of one row and all limits."""
    chances = [probability(row, *limit) for limit in limits_asked(wanted)]
    p = wanted.probability
    least = min(p, 1 - p)
    if any(chance is not None and chance < least - 1e-9 for chance in chances):
        return "broken"
    kept = all(chance is not None and chance >= p - 1e-9 for chance in chances)
    return "kept" if kept else "open"


def could_be(row: Row, what: str) -> tuple[float, float]:
    """What a row's value can be: of what was measured the value, at a roof nothing below it.

    Of the power at a roof nothing is known.
    """
    of = span(row, what)
    assert of is not None
    low, value, high = of
    kind = kind_of(row)
    if is_measured(row) or kind == "":
        return value, value
    if kind == "roof":
        return (0.0, math.inf) if what == "power" else (value, math.inf)
    return low, high


def group_of(text: str, rows: Sequence[Row], wanted: Wanted) -> list[Row]:
    """The rows that the words after a superlative mean."""
    found = list(rows)
    if "measured" in text:
        found = [row for row in found if is_measured(row)]
    if "known by more than bounds" in text:
        found = [row for row in found if kind_of(row) not in {"bounds", "roof"}]
    if "meet" in text:
        found = [row for row in found if state(row, wanted) == "kept"]
    for name in ("energy", "power"):
        if f"whose {name} is known" in text:
            found = [row for row in found if span(row, name) is not None]
    return found


def chosen(found: Recommendation, rows: Sequence[Row]) -> Row:
    assert found.choice is not None
    return beside(found.choice, rows)


def beside(candidate: Candidate, rows: Sequence[Row]) -> Row:
    """The row of a candidate."""
    mine = (candidate.mode, candidate.batch)
    (row,) = (row for row in rows if (row["mode"], row["batch"]) == mine)
    return row


def check_claim(words: str, found: Recommendation, rows: Sequence[Row], wanted: Wanted) -> None:
    """``uses the least energy of the measured modes that meet the limit``, of the choice."""
    choice, what = chosen(found, rows), found.minimise
    only, claim = _ONLY.match(words), _CLAIM.match(words)
    match = only or claim
    assert match is not None, words
    text = match["group"] or ""
    timeless = [row for row in rows if row["latency_s"] is None]
    is_told = "measured" in text or "known" in text
    assert not timeless or is_told, (words, "of some nothing is known")
    group = group_of(text, [row for row in rows if row["latency_s"] is not None], wanted)
    assert choice in group, words
    others = [row for row in group if row is not choice]
    if only:
        assert not others, words
        return
    assert claim is not None
    assert others, (words, "the least of one")
    for other in others:
        check_less(words, choice, other, what, is_counted=bool(claim["counted"]))


def check_less(words: str, mine: Row, its: Row, what: str, *, is_counted: bool) -> None:
    """That the choice has no more than another of its group, as surely as the words say."""
    assert span(its, what) is not None, (words, its)
    low, high = could_be(mine, what)
    other_low, other_high = could_be(its, what)
    value, other = (span(row, what) or (0, 0, 0) for row in (mine, its))
    if words.startswith("may "):
        assert low <= other_high * (1 + _SLACK), words
    elif is_counted:
        assert value[1] <= other[2] * (1 + _SLACK), words
    elif is_measured(mine):
        assert value[1] <= other_low * (1 + _SLACK), words
    elif kind_of(mine) == "roof":
        assert value[1] <= other[1] * (1 + _SLACK), words
    elif kind_of(mine) == "bounds":
        assert high <= (other_low if kind_of(its) else other[1]) * (1 + _SLACK), words
    elif kind_of(its) in {"bounds", "roof"}:
        assert value[1] <= other_low * (1 + _SLACK), words
    else:
        assert value[1] <= other[1] * (1 + _SLACK), words


def check_counts(found: Recommendation, rows: Sequence[Row], wanted: Wanted) -> None:
    """What the lines of "why" count, and that no mode keeps what one keeps."""
    timed = [row for row in rows if row["latency_s"] is not None]
    states = [state(row, wanted) for row in timed]
    n_unknown = len({row["mode"] for row in rows} - {row["mode"] for row in timed})
    n_asked = len(timed) + n_unknown
    text = "\n".join((found.sentence, *found.why)).replace("\u00a0", " ")
    if "No mode meets" in text or re.search(r"each of \d+ candidates breaks", text):
        assert set(states) == {"broken"}, text
        assert not n_unknown, text
    if "No mode is known to meet" in text or "is known to meet each limit" in text:
        assert "kept" not in states or found.minimise != "latency", text
    for n, n_all in re.findall(r"(\d+) of (\d+) candidates? meets? each limit", text):
        kept = [row for row, is_kept in zip(timed, states, strict=True) if is_kept == "kept"]
        known = [row for row in kept if span(row, found.minimise) is not None]
        assert (int(n), int(n_all)) == (len(known), n_asked), text
    for n in re.findall(r"(\d+) breaks? one", text):
        assert int(n) == states.count("broken"), text
    for words, n in re.findall(r"measured in (all (\d+)|both|the only) ", text):
        assert all(is_measured(row) for row in timed), text
        assert n_asked == int(n or (2 if words == "both" else 1)), text
    for n, n_all in re.findall(r"measured in (\d+) of (\d+) ", text):
        assert (int(n), int(n_all)) == (sum(map(is_measured, timed)), n_asked), text


def check_likeliest(found: Recommendation, rows: Sequence[Row], wanted: Wanted) -> None:
    """That no other meets the limit with a greater probability than the likeliest one."""
    if "is likeliest to" not in found.sentence:
        return
    ((what, most),) = limits_asked(wanted)
    mine = probability(chosen(found, rows), what, most)
    for row in rows:
        assert row["latency_s"] is not None
        chance = probability(row, what, most)
        assert chance is not None
        assert mine is not None
        assert chance <= mine + 1e-6


def check_nearest(found: Recommendation, rows: Sequence[Row], wanted: Wanted) -> None:
    """That the nearest one breaks its limits by no greater product than any that breaks one."""
    if not re.search(r" is nearest \(", found.sentence):
        return
    mine = total_excess(chosen(found, rows), wanted)
    for row in rows:
        if row["latency_s"] is not None and state(row, wanted) == "broken":
            assert mine <= total_excess(row, wanted) + 1e-6, found.sentence


def total_excess(row: Row, wanted: Wanted) -> float:
    """The product of the ratios by which limits are broken, at least; the unknown may be kept."""
    ratios = [1.0]
    for what, most in limits_asked(wanted):
        of = span(row, what)
        if of is not None:
            ratios.append(max(1.0, of[0 if kind_of(row) == "bounds" else 1] / most))
    return math.prod(ratios)


def check_baselines(found: Recommendation, modes: Sequence[Row], rows: Sequence[Row]) -> None:
    """That the highest mode is the highest of what it is called the highest of."""
    for saving in found.savings:
        if "default" in saving.baseline:
            continue
        mine = next(mode for mode in modes if mode["mode"] == saving.mode)
        columns = [name for name in mine if name not in {"device", "mode"}]
        if saving.baseline == "the board's highest mode":
            assert saving.mode.startswith("MAXN"), saving.baseline
        elif saving.baseline in {"the highest measured mode", "the highest of these modes"}:
            for name in columns:
                of = [mode[name] for mode in modes]
                assert set(of) == {None} or (None not in of and mine[name] >= max(of) * 0.999)
            if "measured" in saving.baseline:
                assert any(row["mode"] == saving.mode and is_measured(row) for row in rows)
        elif saving.baseline != "another mode":
            words = {"SMs": "n_sms", "GPU clock": "gpu_hz", "memory clock": "memory_hz"}
            words |= {"cores": "n_cpus", "CPU clock": "cpu_hz", "power limit": "power_limit_w"}
            (name,) = (column for word, column in words.items() if saving.baseline.endswith(word))
            assert mine[name] >= max(mode[name] for mode in modes) * 0.999


_CHANGE = r"(?:×[\d.]+|[+−±][\d.]+ %)"


def check_changes(found: Recommendation, rows: Sequence[Row]) -> None:
    """That a ratio with what is known by bounds alone is a range, and no other is."""
    for saving in found.savings:
        if saving.other is None or saving.mode == (found.choice and found.choice.mode):
            continue
        text = found.sentence.replace("\u00a0", " ")
        part = text.partition(f"compared with {saving.mode}")[2].partition(";")[0]
        other = beside(saving.other, rows)
        bounded = "bounds" in {kind_of(chosen(found, rows)), kind_of(other)}
        for name in ("energy", "power", "time"):
            is_range = re.search(rf"{name} between {_CHANGE} and {_CHANGE}", part)
            is_point = re.search(rf"{name} {_CHANGE}", part)
            assert not (bounded and is_point), text
            assert bounded or not is_range, text


def check_trades(found: Recommendation, rows: Sequence[Row]) -> None:
    """That what is called faster is so, of bounds by no more than their ends tell."""
    mine = chosen(found, rows)
    for each in found.neighbours:
        words = each.why_lost.replace("\u00a0", " ")
        other = beside(each.candidate, rows)
        bounded = "bounds" in {kind_of(mine), kind_of(other)}
        for word, sign in (("faster", -1), ("slower", 1)):
            for is_least, number, unit in re.findall(
                rf"(at least )?([\d.,]+) (\w*s) {word}", words
            ):
                assert bool(is_least) == bounded, words
                ends = could_be(other, "latency"), could_be(mine, "latency")
                told = float(number.replace(",", "")) * {"s": 1, "ms": 1e-3, "µs": 1e-6}[unit]
                if bounded:
                    (low, high), (its_low, its_high) = ends
                    gap = its_low - high if sign < 0 else low - its_high
                    assert told <= gap * 1.001, words
                else:
                    difference = sign * (other["latency_s"] - mine["latency_s"])
                    assert told == pytest.approx(difference, rel=0.06), words


def check_best_measured(found: Recommendation, rows: Sequence[Row], wanted: Wanted) -> None:
    """That no measured row that keeps as much has a lower objective than the best measured one."""
    if found.measured is None:
        return
    order = {"kept": 0, "open": 1, "broken": 2}
    ranks = [
        (order[state(row, wanted)], of[1], row["mode"], row["batch"])
        for row in rows
        if row["latency_s"] is not None
        and is_measured(row)
        and (of := span(row, found.minimise)) is not None
        and all(span(row, what) is not None for what, _ in limits_asked(wanted))
    ]
    best = found.measured.candidate
    (mine,) = (rank[:2] for rank in ranks if rank[2:] == (best.mode, best.batch))
    assert mine[0] == min(ranks)[0]
    assert mine[1] <= min(ranks)[1] * (1 + _SLACK)
