"""The answer in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import counted, digits, joules, seconds
from mansard.analytics.hierarchical.records import (
    Amount,
    Calibration,
    Hierarchical,
    HiPoint,
    Replay,
)

_CONFIDENCE = {"threshold": "p1"}


def with_words(found: Hierarchical) -> Hierarchical:
    """``found`` with its sentence and its notes."""
    return msgspec.structs.replace(found, sentence=_sentence(found), notes=tuple(_notes(found)))


def _sentence(found: Hierarchical) -> str:
    point = found.chosen
    if point is None or point.threshold is None:
        return f"No threshold can be chosen: {found.unknown['chosen']}."
    what = _CONFIDENCE.get(point.rule, f"the {point.rule}")
    where = f" in {point.mode}" if point.mode else ""
    rule = f"Offload where {what} is below {digits(point.threshold, 4)}{where}"
    if found.on_fit is not None and found.on_fit.share in {0.0, 1.0}:
        rule = f"Offload {'no' if found.on_fit.share == 0 else 'every'} sample{where}"
    parts = [f"accuracy {accuracy_text(point)}", f"{share_text(point)} offloaded"]
    parts += [amount_text(each, unit) for each, unit in _costs(point)]
    limits = f" {_limit_words(found.verdict, point)}" if point.limits else ""
    return f"{_better(found)}{rule}: {', '.join(parts)}.{limits} {_against(found)}"


def _better(found: Hierarchical) -> str:
    point = found.better
    if point is None:
        return ""
    what = (
        "No offload at all is"
        if point.rule == "never"
        else "To offload all, without a local run, is"
    )
    where = f" in {point.mode}" if point.mode else ""
    costs = [amount_text(each, unit) for each, unit in _costs(point)]
    reached = ", ".join([f"accuracy {accuracy_text(point)}", *costs])
    return f"{what} better than every threshold{where}: {reached}. The best threshold: "


def _costs(point: HiPoint) -> Iterator[tuple[Amount, str]]:
    if point.latency is not None:
        yield point.latency, "s"
    if point.energy is not None:
        yield point.energy, "J"


def _limit_words(verdict: str, point: HiPoint) -> str:
    if verdict == "infeasible":
        return "No threshold keeps every limit as likely as asked; this one comes nearest."
    broken = [each.quantity for each in point.limits if each.holds == "broken"]
    open_ = [each.quantity for each in point.limits if each.holds == "unknown"]
    if broken:
        return (
            f"On the samples that it is judged on, the limit of {' and '.join(broken)} is broken."
        )
    if open_:
        return f"Whether the limit of {' and '.join(open_)} holds is not sure."
    return "Every limit holds as likely as asked."


def _against(found: Hierarchical) -> str:
    never = f"Without any offload {_percent(found.local_accuracy)} are right"
    gain = found.gain
    if gain is None:
        return f"{never}."
    return (
        f"{never}; a random offload of as many has {100 * gain.accuracy:.2f} "
        f"({100 * gain.low:.2f} to {100 * gain.high:.2f}) points less."
    )


def _source_note(found: Hierarchical) -> Iterator[str]:
    """Where each part of the costs comes from."""
    parts = {"local run": ("local_s", "local_j"), "decision": ("decision_s", "decision_j")}
    parts |= {"offload": ("offload_s", "offload_j")}
    said = []
    for name, fields in parts.items():
        amounts = [getattr(mode, field) for mode in found.costs for field in fields]
        sources = dict.fromkeys(each.source for each in amounts if each is not None)
        said += [f"{name} {' and '.join(sources)}"] if sources else []
    if said:
        yield f"costs: {', '.join(said)}"


def _notes(found: Hierarchical) -> Iterator[str]:
    yield from _source_note(found)
    if found.is_held_out:
        yield (
            f"chosen on {counted(found.n_fit, 'sample')}, judged on {found.n_judged:,} that were "
            "held out; intervals are 95 % of samples drawn again"
        )
    else:
        yield (
            "judged on the samples that it was chosen on, so better than it will be; "
            "intervals are 95 % of samples drawn again"
        )
    point = found.chosen
    if point is not None and point.n_unanswered:
        yield (
            f"{counted(point.n_unanswered, 'sample')} of the offloaded have no recorded remote "
            f"answer: the accuracy is between {_percent(point.accuracy_least)} and "
            f"{_percent(point.accuracy_most)}, and counts as the least of these"
        )
    if point is not None:
        yield from (
            f"{name}: unknown, {point.unknown[name]}"
            for name in ("latency", "energy")
            if name in point.unknown
        )
    yield from map(calibration_text, found.calibration)
    if found.decision_time is not None:
        one, many = found.decision_time.one_s, found.decision_time.many_s
        yield (
            f"the decision takes {_time(one)} of one sample, {_time(many)} of each of "
            f"{found.decision_time.n:,} at once (measured on this machine's CPU, in Python)"
        )
    yield from map(replay_text, found.replay)


def calibration_text(found: Calibration) -> str:
    """Whether probabilities are calibrated, and by which error."""
    is_so = "is" if found.is_calibrated else "is not"
    name = "p1" if found.of == "p1" else "the fitted logistic"
    return (
        f"{name} {is_so} calibrated: its error in {found.n_bins} bins of equal width is "
        f"{100 * found.error:.2f} points, calibrated ones stay below {100 * found.error_95:.2f}"
    )


def replay_text(found: Replay) -> str:
    """An online replay in one line."""
    return (
        f"{found.policy}, {found.n_orders} random orders of {found.n:,} samples: regret "
        f"{found.regret:.0f} ({found.regret_low:.0f} to {found.regret_high:.0f}) against the best "
        f"fixed threshold, {found.best_threshold:.3f}; loss {found.loss:.4f} a sample against "
        f"{found.best_loss:.4f}; {_percent(found.share)} offloaded"
    )


def accuracy_text(point: HiPoint) -> str:
    """The accuracy with its interval; between two bounds where answers are missing."""
    ends = f"{100 * point.accuracy_low:.1f} to {100 * point.accuracy_high:.1f}"
    if point.accuracy is None:
        return (
            f"between {_percent(point.accuracy_least)} and {_percent(point.accuracy_most)} ({ends})"
        )
    return f"{_percent(point.accuracy)} ({ends})"


POINT_COLUMNS = (
    *("rule", "mode", "below", "offloaded", "accuracy, 95 %", "latency", "energy"),
    *("cost", "limits"),
)


def point_cells(point: HiPoint, found: Hierarchical) -> tuple[str, ...]:
    """A row of a table of points, under ``POINT_COLUMNS``."""
    return (
        f"{point.rule} (chosen)" if point == found.chosen else point.rule,
        display_name(point.mode) if point.mode else "–",
        "–" if point.threshold is None else digits(point.threshold, 4),
        share_text(point),
        accuracy_text(point),
        amount_text(point.latency, "s"),
        amount_text(point.energy, "J"),
        "–" if point.cost is None else digits(point.cost, 4),
        ", ".join(f"{each.quantity} {each.holds}" for each in point.limits) or "–",
    )


def share_text(point: HiPoint) -> str:
    """The share that is offloaded."""
    return _percent(point.share)


def amount_text(found: Amount | None, unit: str) -> str:
    """A time or an energy with its interval, and where it is from."""
    if found is None:
        return "unknown"
    write = seconds if unit == "s" else joules
    return write(found.value, found.low, found.high, found.interval)


def _time(found: Amount) -> str:
    return seconds(found.value, found.low, found.high, found.interval, advise=False)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"
