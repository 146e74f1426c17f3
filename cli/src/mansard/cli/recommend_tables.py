"""A recommendation as text and tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mansard.analytics.decide.records import Candidate, Recommendation
    from mansard.analytics.decide.time_sharing import MixAnswer, MixPlan

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
_COLUMNS = ("mode", "batch", "precision", "time", "power", "energy per item", "items/s", "remark")


def recommendation_tables(found: Recommendation) -> list[Table]:
    """The choice with its neighbours and baselines, or the nearest ones; no table without."""
    if found.choice is None:
        return []
    title = f"{found.network} on {found.device}"
    if not found.is_feasible:
        rows = [_row(each, "nearest" if at == 0 else "") for at, each in enumerate(found.nearest)]
        return [(f"{title}: nearest to the limits", _COLUMNS, rows)]
    rows = [_row(found.choice, "recommended")]
    rows += [_row(each.candidate, each.why_lost) for each in found.neighbours]
    rows += [_row(each, "within the uncertainty") for each in found.equals]
    rows += [
        _row(each.other, each.baseline)
        for each in found.savings
        if each.other is not None and each.other != found.choice
    ]
    return [(title, _COLUMNS, _once(rows))]


def overview_table(found: Sequence[Recommendation]) -> Table:
    """One row for each recommendation: the choice, and what it saves against the highest mode."""
    columns = ("device", "network", *_COLUMNS[:-1], "against the highest", "verdict")
    return ("Recommendations", columns, [_overview_row(each) for each in found])


def _overview_row(found: Recommendation) -> tuple[str, ...]:
    from mansard.analytics.decide.wording import change

    if found.choice is None:
        why = found.unknown["choice"]
        return (found.device, found.network, *("–",) * (len(_COLUMNS) - 1), "–", why)
    saving = found.savings[0] if found.savings else None
    ratios = () if saving is None else (saving.energy_ratio, saving.latency_ratio)
    words = [
        f"{name} {change(ratio)}"
        for name, ratio in zip(("energy", "time"), ratios, strict=False)
        if ratio is not None
    ]
    cells = _row(found.choice, "")[:-1]
    return (found.device, found.network, *cells, ", ".join(words) or "–", found.verdict)


def _once(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """One row for each candidate; what is remarked of it twice stands in one cell."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for *cells, remark in rows:
        merged.setdefault(tuple(cells), []).append(remark)
    return [
        (*cells, "; ".join(dict.fromkeys(word for words in remarks for word in words.split("; "))))
        for cells, remarks in merged.items()
    ]


def _row(candidate: Candidate, remark: str) -> tuple[str, ...]:
    from mansard.analytics.data.quantities import digits, seconds
    from mansard.analytics.decide.wording import amount

    power_w, energy_j = candidate.power_w, candidate.energy_j
    words = [remark] if remark else []
    words += ["outside the measured clocks"] if candidate.is_extrapolated else []
    return (
        candidate.mode,
        str(candidate.batch),
        candidate.precision,
        seconds(candidate.latency_s, candidate.latency_low_s, candidate.latency_high_s),
        "unknown" if power_w is None else amount("power", power_w),
        "unknown" if energy_j is None else amount("energy", energy_j),
        digits(candidate.fps, 3),
        "; ".join(words),
    )


def recommendation_lines(found: Recommendation) -> Iterator[str]:
    """Everything about a recommendation that is no table, line by line."""
    from mansard.analytics.data.quantities import relative
    from mansard.analytics.decide.wording import check_words, saving_words

    yield found.sentence
    yield from (f"  why: {line}" for line in found.why)
    yield from (f"  limit: {check_words(check)}" for check in found.checks)
    yield from (f"  {saving_words(each)}" for each in found.savings if each.other is None)
    if found.most_excess is not None:
        yield (
            f"  at most {relative(found.most_excess)} worse than the best, if every value lies "
            "in its 95 % interval"
        )
    yield from (f"  note: {line}" for line in found.notes)
    if found.commands is None:
        if found.choice is not None:
            yield f"  commands: unknown, {found.unknown['commands']}"
        return
    yield from (f"  set:  {line}" for line in found.commands.set_lines)
    yield from (f"  undo: {line}" for line in found.commands.undo_lines)
    yield from (f"  note: {line}" for line in found.commands.notes)


def mix_tables(found: MixAnswer) -> list[Table]:
    """What runs where, for the single mode and for the schedule."""
    plans = (("one mode for all", found.one_mode), ("modes in turn", found.schedule))
    return [
        (f"{found.device}: {name}", _MIX_COLUMNS, _mix_rows(plan))
        for name, plan in plans
        if plan is not None
    ]


_MIX_COLUMNS = (
    "network", "mode", "batch", "precision", "items/s", "busy", "time", "wait for the batch",
    "energy per item",
)  # fmt: skip


def _mix_rows(plan: MixPlan) -> list[tuple[str, ...]]:
    from mansard.analytics.data.quantities import digits, percent, seconds
    from mansard.analytics.decide.wording import amount

    rows: list[tuple[str, ...]] = [
        (
            share.network,
            share.mode,
            str(share.batch),
            share.precision,
            digits(share.rate_per_s, 3),
            percent(share.busy),
            seconds(share.latency_s),
            seconds(share.wait_s) if share.wait_s else "–",
            "unknown" if share.energy_j is None else amount("energy", share.energy_j),
        )
        for share in plan.shares
    ]
    if plan.idle_mode is not None and plan.idle_w is not None:
        idle = percent(max(0.0, 1 - plan.busy))
        power = amount("power", plan.idle_w)
        rows.append(("(idle)", plan.idle_mode, "–", "–", "–", idle, "–", "–", power))
    return rows
