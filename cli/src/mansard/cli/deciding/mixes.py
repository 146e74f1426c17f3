"""A mix of networks in tables and lines, and the battery of its options."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mansard import api
from mansard.analytics import pages
from mansard.analytics.data.quantities import digits, joules, percent_bound, relative, seconds
from mansard.api import results
from mansard.core.errors import UsageError
from mansard.core.table import Table
from mansard.core.units import parse_quantity, parse_share

_COLUMNS = (
    "network", "mode", "batch", "precision", "items/s", "busy", "time", "wait, at most",
    "energy per item",
)  # fmt: skip
_MODE_COLUMNS = ("mode", "busy", "idle power", "mean power", "remark")


def read_battery(
    capacity: str | None, rest_power: str | None, efficiency: str | None
) -> api.Battery | None:
    """The battery that the options describe; raises UsageError."""
    if capacity is None:
        return None
    try:
        capacity_j = parse_quantity("--battery", capacity, "energy")
    except UsageError as error:
        number = re.match(r"[0-9.]+", capacity)
        fix = f"write --battery {number[0] if number else 99}Wh"
        raise UsageError(error.what, fix=fix) from None
    optional: dict[str, float] = {}
    if rest_power is not None:
        power_w = parse_quantity("--rest-power", rest_power, "power", may_be_zero=True)
        optional["rest_w"] = power_w
    if efficiency is not None:
        optional["efficiency"] = parse_share("--efficiency", efficiency)
    return api.Battery(capacity_j=capacity_j, **optional)


def mix_tables(answer: results.MixAnswer) -> list[Table]:
    """The networks of each plan with their modes, and the mean power in other modes."""
    tables = [
        Table(f"{answer.device}: {name}", _COLUMNS, _rows(plan)) for name, plan in _plans(answer)
    ]
    if answer.one_mode is not None and answer.others:
        tables.append(Table("Single modes", *_mode_rows(answer, answer.one_mode)))
    return tables


def mix_powers(answer: results.MixAnswer) -> Iterator[str]:
    """The idle power and the mean power of each plan, and how long the battery lasts."""
    plans = _plans(answer)
    for name, plan in plans:
        if plan.idle_w is not None:
            where = f"{name}: " if len(plans) > 1 else ""
            yield f"  {where}{pages.idle_words(plan)}, mean power {pages.mean_power_words(plan)}"
    if answer.battery is not None:
        yield f"  {pages.battery_words(answer.battery, answer.plan)}"


def _plans(answer: results.MixAnswer) -> list[tuple[str, results.MixPlan]]:
    """The single mode and the schedule, those that there are."""
    named = (("one mode for all", answer.one_mode), ("modes in turn", answer.schedule))
    return [(name, plan) for name, plan in named if plan is not None]


def _mode_rows(
    answer: results.MixAnswer, best: results.MixPlan
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns and the rows of the best single mode and of the next best ones."""
    columns = list(_MODE_COLUMNS)
    plans = (best, *answer.others)
    is_mixed = any(plan.power_w is not None for plan in plans)
    if not is_mixed:
        columns[3] = "power without idle"
    rows: list[tuple[str, ...]] = []
    for plan in plans:
        mode = plan.shares[0].mode
        remark = "tie" if mode in answer.equals else ""
        if plan is best:
            remark = "recommended" if answer.schedule is None else "best single mode"
            if plan.roofed():
                remark = "expected to keep up" if plan.is_expected else "may keep up"
        power = _power(plan)
        if is_mixed and plan.power_w is None and plan.active_w is not None:
            power = f"{power} without idle"
        idle = "unknown" if plan.idle_w is None else pages.amount("power", plan.idle_w)
        rows.append((mode, pages.busy_words(plan), idle, power, remark))
    return tuple(columns), rows


def _power(plan: results.MixPlan) -> str:
    """The mean power, without what idles where that is unknown."""
    if plan.power_w is not None:
        return "unknown" if plan.is_bounded() else pages.mean_power_words(plan)
    if plan.active_w is None or plan.is_bounded():
        return "unknown"
    return f"{'at least ' if plan.roofed() else ''}{pages.amount('power', plan.active_w)}"


def _busy(share: results.Share) -> str:
    """The share of all time; of bounds its ends, rounded outwards, as of the time itself."""
    if share.interval == "roof":
        return f"at least {percent_bound(share.busy)}"
    low, high = share.latency_low_s, share.latency_high_s
    if share.interval != "bounds" or low is None or high is None:
        return relative(share.busy)
    least, most = (share.busy * end / share.latency_s for end in (low, high))
    return f"between {percent_bound(least)} and {percent_bound(most, up=True)}"


def _rows(plan: results.MixPlan) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            share.network,
            share.mode,
            str(share.batch),
            share.precision,
            digits(share.rate_per_s, 3),
            _busy(share),
            seconds(share.latency_s, share.latency_low_s, share.latency_high_s, share.interval),
            "unknown" if share.wait_s is None else seconds(share.wait_s) if share.wait_s else "–",
            joules(share.energy_j, share.energy_low_j, share.energy_high_j, share.interval),
        )
        for share in plan.shares
    ]
    if plan.idle_mode is not None and plan.idle_w is not None:
        share = max(0.0, 1 - plan.busy)
        idle = f"at most {percent_bound(share, up=True)}" if plan.roofed() else relative(share)
        rows.append(("(idle)", plan.idle_mode, "–", "–", "–", idle, "–", "–", "–"))
    return rows
