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


def with_words(answer: Hierarchical) -> Hierarchical:
    """``answer`` with its sentence and its notes, as plain text."""
    sentence, *notes = (text.replace(NBSP, " ") for text in (_sentence(answer), *_notes(answer)))
    return msgspec.structs.replace(answer, sentence=sentence, notes=tuple(notes))


def _sentence(answer: Hierarchical) -> str:
    point = answer.chosen
    if point is None or point.threshold is None:
        return f"No threshold can be chosen: {answer.unknown['chosen']}."
    what = _CONFIDENCE.get(point.rule, f"the {point.rule}")
    where = f" in {point.mode}" if point.mode else ""
    rule = f"Offload where {what} is below {digits(point.threshold, 4)}{where}"
    if not 0 < point.threshold <= 1:
        rule = f"Offload {'every' if point.threshold else 'no'} sample{where}"
    parts = [f"accuracy {accuracy_text(point)}", f"{share_text(point)} offloaded"]
    parts += [amount_text(amount, unit) for amount, unit in _costs(point)]
    limits = f" {_limit_words(answer, point)}" if point.limits else ""
    claim = f"{_better(answer)}{rule}: {', '.join(parts)}.{limits} {_against(answer)}"
    return f"{claim}{unknown_modes_sentence(answer.modes_unknown)}"


def _better(answer: Hierarchical) -> str:
    point = answer.better_baseline
    if point is None:
        return ""
    what = (
        "No offload at all is"
        if point.rule == "never"
        else "To offload all, without a local run, is"
    )
    where = f" in {point.mode}" if point.mode else ""
    costs = [amount_text(amount, unit) for amount, unit in _costs(point)]
    reached = ", ".join([f"accuracy {accuracy_text(point)}", *costs])
    if answer.is_held_out:  # the others are judged on other samples than they are chosen on
        return (
            f"{what} better than every threshold{where} on the {counted(answer.n_fit, 'sample')} "
            f"that it is chosen on; on those held out: {reached}. The best threshold: "
        )
    return f"{what} better than every threshold{where}: {reached}. The best threshold: "


def _costs(point: HiPoint) -> Iterator[tuple[Amount, str]]:
    if point.latency is not None:
        yield point.latency, "s"
    if point.energy is not None:
        yield point.energy, "J"


def _limit_words(answer: Hierarchical, point: HiPoint) -> str:
    on_fit = () if answer.on_fit is None else answer.on_fit.limits
    nearest = "No threshold is known to meet every limit; this one comes nearest. "
    first = "" if all(limit.holds == "kept" for limit in on_fit) else nearest
    where = "On the samples held out" if answer.is_held_out else "On these samples"
    for holds, words in (("broken", "broken"), ("unknown", "uncertain")):
        names = [limit.quantity for limit in point.limits if limit.holds == holds]
        if names:
            first += f"{where} the limit on {' and '.join(names)} is {words}. "
    return first.strip() or "Every limit holds with the probability asked for."


def _against(answer: Hierarchical) -> str:
    never = f"Without any offload {_percent(answer.local_accuracy)} are right"
    gain = answer.gain
    if gain is None:
        return f"{never}."
    return (
        f"{never}; a random offload of the same share is {100 * gain.accuracy:.2f} points "
        f"({100 * gain.low:.2f} to {100 * gain.high:.2f}) less accurate."
    )


def _source_note(answer: Hierarchical) -> Iterator[str]:
    """Where each part of the costs comes from."""
    parts = {"local run": ("local_s", "local_j"), "decision": ("decision_s", "decision_j")}
    parts |= {"offload": ("offload_s", "offload_j")}
    said = []
    for name, fields in parts.items():
        amounts = [getattr(mode, field) for mode in answer.costs for field in fields]
        sources = dict.fromkeys(amount.source for amount in amounts if amount is not None)
        said += [f"{name} {' and '.join(sources)}"] if sources else []
    if said:
        yield f"costs: {', '.join(said)}"


def _notes(answer: Hierarchical) -> Iterator[str]:
    yield from _source_note(answer)
    if answer.is_held_out:
        yield (
            f"chosen on {counted(answer.n_fit, 'sample')}, judged on {answer.n_judged:,} that were "
            "held out; intervals are 95 % of samples drawn again"
        )
    else:
        yield (
            "judged on the samples that it was chosen on, so better than it will be; "
            "intervals are 95 % of samples drawn again"
        )
    point = answer.chosen
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
    yield from map(calibration_text, answer.calibration)
    yield from _decision_notes(answer)
    yield from map(replay_text, answer.replay)


def _decision_notes(answer: Hierarchical) -> Iterator[str]:
    timed = [costs.decision_s for costs in answer.costs if costs.decision_s is not None]
    here = [costs for costs in timed if costs.source == "this host"]
    searched = (
        f"in Python: the two largest of {answer.n_searched:,} outputs, their softmax and a logistic"
        if answer.n_searched
        else "in Python, by the last of the rules, from p1 and p2: without the search for the two "
        "largest outputs"
    )
    if here:
        yield (
            f"the decision takes {_time(here[0])} on this host ({searched}), and counts so for "
            "every rule; --decision-latency takes the device's"
        )
    if any(costs.local_j is not None and costs.decision_j is None for costs in answer.costs):
        yield "energies exclude the decision's, which is unknown: --decision-energy sets it"


def calibration_text(calibration: Calibration) -> str:
    """Whether these samples reject calibration, with the error that decides it."""
    name = "p1" if calibration.of == "p1" else "the fitted logistic"
    n = sum(n_in_bin for _, n_in_bin, *_ in calibration.bins)
    is_so = f"{name} is not calibrated"
    if not calibration.is_rejected:
        is_so = f"no miscalibration of {name} can be told"
    return (
        f"{is_so}: over {counted(n, 'sample')} the error in {calibration.n_bins} bins is "
        f"{100 * calibration.error:.2f} points, "
        f"calibrated ones stay below {100 * calibration.error_95:.2f}"
    )


def replay_text(replay: Replay) -> str:
    """An online replay in one line."""
    return (
        f"{replay.policy} (simulated, with a bound of our own), {replay.n_orders} random orders of "
        f"{replay.n:,} samples: regret {replay.regret:.0f} "
        f"({replay.regret_low:.0f} to {replay.regret_high:.0f}) against the best "
        f"fixed threshold, {replay.best_threshold:.3f}; loss {replay.loss:.4f} a sample against "
        f"{replay.best_loss:.4f}; {_percent(replay.share)} offloaded"
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


def point_cells(point: HiPoint, answer: Hierarchical) -> tuple[str, ...]:
    """A row of a table of points, under ``POINT_COLUMNS``."""
    return (
        f"{point.rule} (chosen)" if point == answer.chosen else point.rule,
        display_name(point.mode) if point.mode else "–",
        "–" if point.threshold is None else digits(point.threshold, 4),
        share_text(point),
        accuracy_text(point),
        amount_text(point.latency, "s"),
        amount_text(point.energy, "J"),
        "–" if point.cost is None else digits(point.cost, 4),
        ", ".join(f"{limit.quantity} {limit.holds}" for limit in point.limits) or "–",
    )


def share_text(point: HiPoint) -> str:
    """The offloaded share of samples."""
    return _percent(point.share)


def amount_text(amount: Amount | None, unit: str) -> str:
    """A time or an energy with its interval, and where it is from."""
    if amount is None:
        return "unknown"
    write = seconds if unit == "s" else joules
    return write(amount.value, amount.low, amount.high, amount.interval)


def _time(amount: Amount) -> str:
    return seconds(amount.value, amount.low, amount.high, amount.interval, advise=False)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"
