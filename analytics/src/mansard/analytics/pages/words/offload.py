"""The answer of hierarchical inference in sentences."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, counted, digits, joules, seconds
from mansard.analytics.decisions.offload.records import (
    Amount,
    Calibration,
    Hierarchical,
    HiPoint,
    Replay,
)
from mansard.analytics.pages.words.comparisons import unknown_modes_sentence

_CONFIDENCE = {"threshold": "p1"}


def with_words(found: Hierarchical) -> Hierarchical:
    """``found`` with its sentence and its notes, as plain text."""
    sentence, *notes = (text.replace(NBSP, " ") for text in (_sentence(found), *_notes(found)))
    return msgspec.structs.replace(found, sentence=sentence, notes=tuple(notes))


def _sentence(found: Hierarchical) -> str:
    point = found.chosen
    if point is None or point.threshold is None:
        return f"No threshold can be chosen: {found.unknown['chosen']}."
    what = _CONFIDENCE.get(point.rule, f"the {point.rule}")
    where = f" in {point.mode}" if point.mode else ""
    rule = f"Offload where {what} is below {digits(point.threshold, 4)}{where}"
    if not 0 < point.threshold <= 1:
        rule = f"Offload {'every' if point.threshold else 'no'} sample{where}"
    parts = [f"accuracy {accuracy_text(point)}", f"{share_text(point)} offloaded"]
    parts += [amount_text(each, unit) for each, unit in _costs(point)]
    limits = f" {_limit_words(found, point)}" if point.limits else ""
    told = f"{_better(found)}{rule}: {', '.join(parts)}.{limits} {_against(found)}"
    return f"{told}{unknown_modes_sentence(found.modes_unknown)}"


def _better(found: Hierarchical) -> str:
    point = found.better_baseline
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
    if found.is_held_out:  # the others are judged on other samples than they are chosen on
        return (
            f"{what} better than every threshold{where} on the {counted(found.n_fit, 'sample')} "
            f"that it is chosen on; on those held out: {reached}. The best threshold: "
        )
    return f"{what} better than every threshold{where}: {reached}. The best threshold: "


def _costs(point: HiPoint) -> Iterator[tuple[Amount, str]]:
    if point.latency is not None:
        yield point.latency, "s"
    if point.energy is not None:
        yield point.energy, "J"


def _limit_words(found: Hierarchical, point: HiPoint) -> str:
    on_fit = () if found.on_fit is None else found.on_fit.limits
    nearest = "No threshold is known to keep every limit; this one comes nearest. "
    first = "" if all(each.holds == "kept" for each in on_fit) else nearest
    where = "On the samples held out" if found.is_held_out else "On these samples"
    for holds, words in (("broken", "broken"), ("unknown", "neither kept nor broken for sure")):
        names = [each.quantity for each in point.limits if each.holds == holds]
        if names:
            first += f"{where} the limit of {' and '.join(names)} is {words}. "
    return first.strip() or "Every limit holds as likely as asked."


def _against(found: Hierarchical) -> str:
    never = f"Without any offload {_percent(found.local_accuracy)} are right"
    gain = found.gain
    if gain is None:
        return f"{never}."
    return (
        f"{never}; a random offload of the same share is {100 * gain.accuracy:.2f} points "
        f"({100 * gain.low:.2f} to {100 * gain.high:.2f}) less accurate."
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
    yield from _decision_notes(found)
    yield from map(replay_text, found.replay)


def _decision_notes(found: Hierarchical) -> Iterator[str]:
    timed = [each.decision_s for each in found.costs if each.decision_s is not None]
    here = [each for each in timed if each.source == "this host"]
    if here:
        yield (
            f"the decision takes {_time(here[0])} on this host (in Python, by the last of the "
            "rules, from p1 and p2: without the search for the two largest outputs), and counts so "
            "for every rule; --decision-latency takes the device's"
        )
    if any(each.local_j is not None and each.decision_j is None for each in found.costs):
        yield "energies are without that of the decision, which is not known: --decision-energy"


def calibration_text(found: Calibration) -> str:
    """What can be told of calibration from these samples, and by which error."""
    name = "p1" if found.of == "p1" else "the fitted logistic"
    n = sum(each[1] for each in found.bins)
    is_so = f"{name} is not calibrated"
    if not found.is_rejected:
        is_so = f"no miscalibration of {name} can be told"
    return (
        f"{is_so}: over {counted(n, 'sample')} the error in {found.n_bins} bins is "
        f"{100 * found.error:.2f} points, calibrated ones stay below {100 * found.error_95:.2f}"
    )


def replay_text(found: Replay) -> str:
    """An online replay in one line."""
    return (
        f"{found.policy} (simulated, with a bound of our own), {found.n_orders} random orders of "
        f"{found.n:,} samples: regret "
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
