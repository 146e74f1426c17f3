"""One candidate beside another: what it saves, gives and takes, in words.

Of bounds no value is told, because nothing tells where between them it lies: where one of two is
known by bounds alone, the ratio has a range, and a difference is what it is at least.

Here are also the words for quantities, limits and modes that all sentences use, the remarks on a
batch beside the other batches of its network, and notes on what was left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import polars as pl

from mansard.analytics.data.accuracies import REFERENCE, NetworkAccuracy, share_text
from mansard.analytics.data.names import display_name, stage_of
from mansard.analytics.data.quantities import NBSP, UNKNOWN, digits, joules, rate, seconds, watts
from mansard.analytics.data.statistics import are_near
from mansard.analytics.decisions.alternatives import is_bounded
from mansard.analytics.decisions.batches import CURVE
from mansard.analytics.decisions.limits import DropScreen, interval_of, limits_of, unknown_modes
from mansard.analytics.decisions.records import (
    UNKNOWN_PRECISION,
    Candidate,
    LimitCheck,
    Objective,
    Quantity,
    Saving,
    Wanted,
)
from mansard.analytics.decisions.roof_times import expected_span_s
from mansard.analytics.decisions.values import OmittedRows
from mansard.core.text import listed
from mansard.core.units import ROOF_ENGINE, Interval


def with_remarks(batches: pl.DataFrame) -> pl.DataFrame:
    """BATCH_SCHEMA rows with a remark on the batches with the highest rate or the least energy."""
    items, energy = pl.col("items_per_s"), pl.col("energy_j")
    remark = pl.concat_str(
        _remark("is_most_items", items, items.max(), "most items per second"),
        _remark("is_least_energy", energy, energy.min(), "least energy"),
        separator="; ",
        ignore_nulls=True,
    )
    return batches.with_columns(remark=remark).with_columns(
        remark=pl.when(pl.col("remark") != "").then("remark")
    )


def _remark(flag: str, value: pl.Expr, best: pl.Expr, what: str) -> pl.Expr:
    """The words for the batch that ``flag`` marks; null for others, and if only one is known.

    Null too where an interval is bounds: the value may be anywhere in it, so no batch is known to
    be the best.
    """
    is_bounded = (pl.col("interval") == "bounds").any().over(CURVE).fill_null(value=False)
    n_known = value.count().over(CURVE)
    some = n_known < pl.len().over(CURVE)
    whose = pl.when(some).then(pl.lit(" of those known")).otherwise(pl.lit(""))
    near = pl.lit(f"smallest within 1 % of the {what}")
    words = pl.when(value == best.over(CURVE)).then(pl.lit(what)).otherwise(near)
    by = pl.when(pl.col("interval") == "roof").then(pl.lit(" by the roofs")).otherwise(pl.lit(""))
    return pl.when(pl.col(flag) & ~is_bounded & (n_known > 1)).then(words + whose + by)


def amount(kind: Quantity, value: float) -> str:
    """A value in its customary unit."""
    if kind == "latency":
        return seconds(value)
    if kind == "power":
        return f"{digits(value, 3)}{NBSP}W"
    if kind == "energy":
        return quantity_j(value)
    return f"{digits(value, 3)}{NBSP}items/s"


def quantity_j(value: float) -> str:
    """Joules, small amounts in mJ or µJ."""
    for factor, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ")):
        if value >= factor:
            return f"{digits(value / factor, 3)}{NBSP}{prefix}J"
    return f"{value:.2e}{NBSP}J"


def likely(probability: float) -> str:
    """A probability; never rounded to certainty."""
    if probability > 0.99:
        return f"more than 99{NBSP}%"
    if probability < 0.01:
        return f"less than 1{NBSP}%"
    return f"{100 * probability:.0f}{NBSP}%"


def asked_words(wanted: Wanted) -> str:
    """The required probability as the user gave it: ``97.5 %``."""
    return f"{100 * wanted.probability:g}{NBSP}%"


NO_COMMANDS = "commands depend on the board"
QUANTITY_WORDS: dict[Quantity, str] = {
    "latency": "time",
    "power": "power",
    "energy": "energy of an item",
    "rate": "rate",
}


def mode_words(candidate: Candidate) -> str:
    """``30W``, or ``30W at batch 8``."""
    batch = "" if candidate.batch == 1 else f" at batch {candidate.batch}"
    return f"{display_name(candidate.mode)}{batch}"


def figures(candidate: Candidate) -> str:
    """Time, power and energy: ``4.76 ± 0.12 ms, 12.3 W, 58.5 mJ per item``; no power of a roof."""
    parts, item = [figure(candidate, "latency")], item_word(candidate.network)
    if candidate.batch > 1:
        parts[0] += f" for {candidate.batch} {item}s"
    elif item == "token":
        parts.append(figure(candidate, "rate"))
    if candidate.power_w is not None and candidate.interval != "roof":
        parts.append(figure(candidate, "power"))
    if candidate.energy_j is not None:
        parts.append(f"{figure(candidate, 'energy')} per {item}")
    return ", ".join(parts)


def item_word(network: str) -> str:
    """What a batch of ``network`` is made of: tokens or prompts of a language model, or items."""
    stage = stage_of(network)
    return "item" if stage is None else {"decode": "token", "prefill": "prompt"}[stage[1]]


def figure(candidate: Candidate, kind: Quantity) -> str:
    """``4.76 ± 0.12 ms``, ``between 9 and 78 ms``, ``at best 3.2 ms``: by its interval."""
    interval = interval_of(candidate, kind)
    if interval is None:
        return UNKNOWN
    if kind == "rate":
        items, item = interval.inverse(), item_word(candidate.network)
        text = rate(items.value, items.low, items.high, items.kind, advise=False)
        return f"{text}{NBSP}{item}s/s"
    says = {"power": watts, "energy": joules}.get(kind, seconds)
    return says(interval.value, interval.low, interval.high, interval.kind, advise=False)


def limit_words(wanted: Wanted, item: str = "item") -> str:
    """``limit 40 ms``, ``limits 40 ms and 12 W``, ``minimum 30 items/s``; empty without any."""
    most, least = _bare_limits(wanted, item)
    parts = [f"limit{'s' * (len(most) > 1)} {' and '.join(most)}"] if most else []
    return " and ".join([*parts, *(f"minimum {text}" for text in least)])


def named_limits(wanted: Wanted, item: str = "item") -> str:
    """As ``limit_words``, after "the": ``40 ms limit``, ``30 items/s minimum``."""
    most, least = _bare_limits(wanted, item)
    parts = [f"{' and '.join(most)} limit{'s' * (len(most) > 1)}"] if most else []
    return " and ".join([*parts, *(f"{text} minimum" for text in least)])


def _bare_limits(wanted: Wanted, item: str) -> tuple[list[str], list[str]]:
    """The most that may be, and the least, without words."""
    limits = [(kind, limit_text(kind, limit, item)) for kind, limit in limits_of(wanted)]
    most = [text for kind, text in limits if kind != "rate"]
    return most, [text for kind, text in limits if kind == "rate"]


def limit_word(kind: Quantity) -> str:
    """The rate has a minimum; other quantities have a limit."""
    return "minimum" if kind == "rate" else "limit"


def limit_text(kind: Quantity, limit: float, item: str = "item") -> str:
    """``40 ms``, ``30 items/s``: as it was given, without zeros at the end.

    ``item``: as ``item_word``.
    """
    text = re.sub(r"(\.\d*?)0+(?=\D)", r"\1", amount(kind, limit)).replace(f".{NBSP}", NBSP)
    return text.replace("items", f"{item}s") if kind == "rate" else text


def network_words(candidate: Candidate) -> str:
    """``resnet50 in fp16``; of a program, or a table that does not say, the name alone."""
    precision = candidate.precision
    return display_name(candidate.network) + (
        "" if precision == UNKNOWN_PRECISION else f" in {precision}"
    )


def change(ratio: float) -> str:
    """A ratio as a change: 0.69 is −31 %, 3.2 is ×3.2."""
    if ratio >= 2:
        return f"×{digits(ratio, 3)}"
    share = round(100 * (ratio - 1), 1 if abs(ratio - 1) < 0.1 else 0)
    return f"{'+' if share > 0 else '−' if share < 0 else '±'}{abs(share):g}{NBSP}%"


def compared_facts(facts: str, choice: Candidate, savings: Sequence[Saving]) -> str:
    """The facts, and how the choice compares with other modes: the end of a sentence."""
    compared = [
        f"it is also {saving.baseline}" if saving.mode == choice.mode else saving_words(saving)
        for saving in savings
        if saving.other is not None
    ]
    return "; ".join([facts, *compared]) + "."


def saving_words(saving: Saving) -> str:
    """``compared with MAXN (the board's highest mode): energy −31 %, power −54 %, time +49 %``."""
    if saving.other is None:
        return f"not compared with {saving.baseline}: {saving.unknown['other']}"
    parts = [
        f"{name} {words}"
        for name in ("energy", "power", "time")
        if (words := change_of(saving, name))
    ]
    ratios = (saving.energy_ratio, saving.power_ratio, saving.latency_ratio)
    is_same = all(ratio == 1.0 for ratio in ratios if ratio is not None)
    words = "no difference" if is_same and saving.latency_ratio else ", ".join(parts)
    by = " by the roofs" if saving.other.interval == "roof" and saving.latency_ratio else ""
    words = words or saving.unknown["latency_ratio"]
    return f"compared with {display_name(saving.mode)}{by} ({saving.baseline}): {words}"


def change_of(saving: Saving, name: str) -> str:
    """``−31 %``; ``between ×0.020 and ×5.3`` where only bounds are known; empty: nothing is."""
    field = f"{'latency' if name == 'time' else name}_ratio"
    ratio, low, high = (getattr(saving, f"{field}{end}") for end in ("", "_low", "_high"))
    if ratio is not None:
        return change(ratio)
    if low is None:
        return ""
    if high >= 2:  # both as factors
        return f"between ×{digits(low, 2)} and {change(high)}"
    return f"between {change(low)} and {change(high)}"


def measured_words(
    other: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """Costs of the best measured mode, the limits it meets, and the gain of the choice."""
    facts = f"{mode_words(other)} ({figures(other)}; {other.source})"
    limits = _limits_text(checks)
    mine, its = objective_value(choice, wanted.minimise), objective_value(other, wanted.minimise)
    gain = ""
    if mine is not None and its is not None and mine < its and not is_bounded(choice, other):
        gain = (
            f"; against it the choice, which is modelled: {_OBJECTIVE_WORDS[wanted.minimise]} "
            f"{change(mine / its)}"
        )
    return f"{facts}{limits}{gain}"


def _limits_text(checks: Sequence[LimitCheck]) -> str:
    if not checks:
        return ""
    broken = [QUANTITY_WORDS[check.quantity] for check in checks if check.holds == "broken"]
    if broken:
        return f" breaks the limit on {' and '.join(broken)}"
    if all(check.holds == "kept" for check in checks):
        return " meets every limit"
    return " may meet every limit"


_OBJECTIVE_WORDS: dict[Objective, str] = {
    "energy": "energy",
    "latency": "time",
    "edp": "energy times time",
    "power": "power",
}


def objective_value(of: Candidate, minimise: Objective) -> float | None:
    """The quantity to minimise: s, W, J per item, or J·s."""
    if minimise == "latency":
        return of.latency_s
    if minimise == "power":
        return of.power_w
    if of.energy_j is None:
        return None
    return of.energy_j * of.latency_s if minimise == "edp" else of.energy_j


def lost_words(
    other: Candidate, choice: Candidate, checks: Sequence[LimitCheck], wanted: Wanted
) -> str:
    """Why ``other`` lost: the limit that it breaks or may break, or its higher cost."""
    for check in sorted(checks, key=lambda check: check.holds != "broken"):
        limit = limit_text(check.quantity, check.limit, item_word(other.network))
        word = QUANTITY_WORDS[check.quantity]
        kind = limit_word(check.quantity)
        if check.holds == "broken":
            value = figure(other, check.quantity)
            return f"breaks the limit on {word}: {value}, {kind} {limit}"
        if check.holds == "unknown" and check.probability is not None:
            return (
                f"meets the {limit} {kind} with a probability of only "
                f"{likely(check.probability)}, {asked_words(wanted)} required"
            )
        if check.holds == "unknown":
            return f"whether it meets the limit on {word}, {limit}, is unknown"
    mine, its = (objective_value(candidate, wanted.minimise) for candidate in (choice, other))
    is_less = mine is not None and its is not None and its < mine
    if is_less and not other.is_measured and not is_bounded(other, choice):
        return f"its advantage is within its uncertainty: {trade_words(other, choice)}"
    return trade_words(other, choice)


def trade_words(other: Candidate, choice: Candidate) -> str:
    """``0.8 ms faster, but 1.9 W more``: what another one gives and takes beside the choice.

    What the intervals do not tell apart is named without a number, and a difference of uncertain
    values has two digits.
    """
    if (other.interval == "roof") != (choice.interval == "roof"):
        whose = "" if other.interval == "roof" else "the choice is "
        return f"not compared: {whose}known by its roof alone"
    better: list[str] = []
    worse: list[str] = []
    alike: list[str] = []
    same: list[str] = []
    pairs: tuple[tuple[Quantity, str, str], ...] = (
        ("latency", "faster", "slower"),
        ("power", "less", "more"),
        ("energy", "less per item", "more per item"),
    )
    for kind, less, more in pairs:
        first, second = interval_of(other, kind), interval_of(choice, kind)
        name = "time" if kind == "latency" else kind
        if first is None or second is None:
            continue
        mine, its = first.value, second.value
        if math.isclose(mine, its) and not is_bounded(other, choice):
            same.append(name)
        elif _are_apart(other, choice, kind):
            words = f"{_difference(kind, other, choice)} {less if mine < its else more}"
            (better if mine < its else worse).append(words)
        else:
            alike.append(name)
    trade = ", but ".join(filter(None, (" and ".join(better), " and ".join(worse))))
    if alike:
        trade = "; ".join(filter(None, (trade, f"no clear difference in {listed(alike)}")))
    return trade or f"the same {listed(same)}"


def _are_apart(other: Candidate, choice: Candidate, kind: Quantity) -> bool:
    """Whether two intervals are disjoint; values without an interval always differ."""
    less, more = _by_size(other, choice, kind)
    if is_bounded(other, choice):
        return less[2] < more[1]
    if less[1] == less[2] or more[1] == more[2] or other.interval == "roof":
        return True
    return not are_near(less, more)


def _by_size(
    other: Candidate, choice: Candidate, kind: Quantity
) -> list[tuple[float, float, float]]:
    """Value, low and high of both, the smaller first; a value without ends is its own."""
    spans = []
    for candidate in (other, choice):
        interval = interval_of(candidate, kind) or Interval(0.0)
        spans.append((interval.value, *interval.ends))
    return sorted(spans)


def _difference(kind: Quantity, other: Candidate, choice: Candidate) -> str:
    """The difference of two values; of bounds, the gap between the nearer ends."""
    less, more = _by_size(other, choice, kind)
    if is_bounded(other, choice):
        gap = more[1] - less[2]
        return f"at least {limit_text(kind, math.floor(gap / _step(gap)) * _step(gap))}"
    value = more[0] - less[0]
    if other.interval is None:
        return amount(kind, value)
    return limit_text(kind, round(value / _step(value)) * _step(value))


def _step(value: float) -> float:
    """The value of one unit in the second significant digit."""
    return float(10.0 ** (math.floor(math.log10(value)) - 1))


_SHOWN_MODES = 3


def unknown_modes_words(reasons: Mapping[str, str]) -> str:
    """``MAXN is unknown: its clocks are``; ``reasons``: by mode, why it has no time."""
    by_reason: dict[str, list[str]] = {}
    for mode, reason in reasons.items():
        by_reason.setdefault(reason, []).append(display_name(mode))
    return "; ".join(f"{_modes_are(modes)} unknown: {why}" for why, modes in by_reason.items())


def unknown_modes_sentence(reasons: Mapping[str, str]) -> str:
    """The same as a sentence that follows another; empty where all are known."""
    return f" {unknown_modes_words(reasons)}." if reasons else ""


def unknown_modes_notes(predictions: pl.DataFrame, modes: pl.DataFrame) -> tuple[str, ...]:
    """A line for each network and device with modes in which nothing is predicted."""
    notes = []
    for rows in predictions.partition_by("device", "network", maintain_order=True):
        device, network = str(rows["device"][0]), str(rows["network"][0])
        asked = modes.filter(pl.col("device") == device)["mode"].drop_nulls().to_list()
        words = unknown_modes_words(unknown_modes(rows, asked))
        notes += [f"{display_name(network)} on {display_name(device)}: {words}"] if words else []
    return tuple(notes)


def _modes_are(modes: Sequence[str]) -> str:
    return f"{_first_modes(modes)} {'is' if len(modes) == 1 else 'are'}"


def _first_modes(modes: Sequence[str]) -> str:
    """``15W, 25W, 30W and 2 more modes``."""
    rest = len(modes) - _SHOWN_MODES
    return listed([*modes[:_SHOWN_MODES], *([f"{rest} more modes"] if rest > 0 else [])])


_MOST_REASONS, _MOST_EQUALS = 3, 4  # in one line


def equal_sentence(modes: Sequence[str], n_equals: int) -> str:
    """`` No clear difference from 25W.``: of ``modes`` within the uncertainty; empty for none."""
    if not n_equals:
        return ""
    is_told = n_equals == len(set(modes)) <= _MOST_EQUALS
    return f" No clear difference from {listed(modes) if is_told else f'{n_equals} others'}."


def left_out_sentence(modes: Sequence[str]) -> str:
    """`` Not compared: 25W and MAXN; name them with --mode.``; empty for no modes."""
    if not modes:
        return ""
    it = "it" if len(modes) == 1 else "them"
    return f" Not compared: {_first_modes(modes)}; name {it} with --mode."


def drop_notes(drops: DropScreen | None) -> tuple[str, ...]:
    """A note for each precision whose accuracy may drop too much."""
    if drops is None:
        return ()
    network = display_name(drops.network)
    notes = [
        f"{precision} is left out: {_why_left_out(drops, network, precision, accuracy)}"
        for precision, accuracy in drops.left_out.items()
    ]
    if drops.is_partial:
        notes.append(f"the accuracy of {network}, which has no precision, is not limited")
    return tuple(notes)


def _why_left_out(
    drops: DropScreen, network: str, precision: str, accuracy: NetworkAccuracy | None
) -> str:
    if accuracy is None or accuracy.drop is None:
        reason = "" if accuracy is None else f" ({accuracy.unknown['drop']})"
        return (
            f"its accuracy compared with {REFERENCE} is unknown{reason}; mansard measure {network} "
            f"--precision {REFERENCE},{precision} --data DATA measures it"
        )
    chance = accuracy.drop.probability_at_most(drops.most)
    limit = f"{100 * drops.most:g}{NBSP}%"
    return (
        f"its accuracy drops by {share_text(accuracy.drop)} against {REFERENCE}, and the limit is "
        f"{limit}: that holds with a probability of {100 * chance:.0f}{NBSP}%, "
        f"{100 * drops.probability:g}{NBSP}% is required"
    )


def omitted_notes(rows: OmittedRows | None) -> tuple[str, ...]:
    """How many predictions have no time, of which modes, and their reasons; empty for none."""
    if rows is None:
        return ()
    more = ", …" if len(rows.modes) > 3 else ""
    where = f" (of modes {', '.join(rows.modes[:3])}{more})" if rows.modes else ""
    reasons = [
        reason if n == rows.n else f"{reason} ({n} of them)"
        for reason, n in rows.reasons[:_MOST_REASONS]
    ]
    why = f": {'; '.join(reasons)}" if reasons else ""
    if rows.n == rows.n_all:
        return (f"no prediction has a time{where}{why}",)
    return (f"{rows.n} of {rows.n_all} predictions have no time and are left out{where}{why}",)


def expected_time(of: Candidate) -> str:
    """``between 1.5 and 30 ms with TensorRT``: of a mode that is known by its roof."""
    least_s, most_s = map(float, expected_span_s(of.latency_s))
    return f"{seconds(least_s, least_s, most_s, 'bounds')} with {ROOF_ENGINE}"


def lowest_sentence(lowest: Candidate | None, choice: Candidate | None, wanted: Wanted) -> str:
    """`` 7W is the lowest mode that meets the 30 ms limit.``; empty where it is the choice."""
    if lowest is None or (choice is not None and choice.mode == lowest.mode):
        return ""
    limits = named_limits(wanted, item_word(lowest.network))
    if lowest.interval == "roof":
        does = f"expected to meet the {limits} ({expected_time(lowest)})"
        return f" {mode_words(lowest)} is the lowest mode {does}."
    return f" {mode_words(lowest)} is the lowest mode that meets the {limits}."
