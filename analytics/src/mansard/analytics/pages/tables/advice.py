"""The recommended modes on the page, and why others were not chosen."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from mansard.analytics.data.names import display_name, display_text, short_devices, stage_of
from mansard.analytics.data.quantities import (
    MEASURE_MORE,
    NBSP,
    UNKNOWN,
    counted,
    joules,
    percent,
    seconds,
    watts,
)
from mansard.analytics.decisions.records import Candidate, Recommendation, Saving
from mansard.analytics.pages.results import Results
from mansard.analytics.pages.words.comparisons import change_of
from mansard.core.table import Table
from mansard.core.text import listed
from mansard.core.units import WIDEST

MOST_NAMED = 4  # networks in one sentence
MOST_TOLD = 8  # recommendations in full; the table has all of them


MOST_ROWS = 100
TOO_UNCERTAIN = f"too uncertain to rank: {MEASURE_MORE}"


NO_ADVICE = (
    "No recommendation yet: it needs a network with a known time. `mansard bench model.onnx` adds "
    "one, `mansard recommend model.onnx --max-latency 20ms` sets limits."
)


@dataclass(frozen=True)
class Advice:
    """One recommendation as the page tells it."""

    sentence: str
    why: Sequence[str]
    neighbours: Table
    set_lines: Sequence[str]
    undo_lines: Sequence[str]
    notes: Sequence[str]


def is_certain(pick: Recommendation) -> bool:
    """Whether the values of its choice are known well enough to rank modes by them.

    The time and what is minimised; at the roofs modes are compared by value.
    """
    choice = pick.choice
    if choice is None:
        return False
    of_energy = (choice.energy_low_j, choice.energy_high_j)
    of_power = (choice.power_low_w, choice.power_high_w)
    ends = {"energy": of_energy, "edp": of_energy, "power": of_power}
    return _is_known(choice) and _is_narrow(choice, *ends.get(pick.minimise, (None, None)))


def _is_known(of: Candidate) -> bool:
    return _is_narrow(of, of.latency_low_s, of.latency_high_s)


def _is_ranked(of: Candidate) -> bool:
    return _is_known(of) and _is_narrow(of, of.energy_low_j, of.energy_high_j)


def _is_narrow(of: Candidate, low: float | None, high: float | None) -> bool:
    return of.interval == "roof" or low is None or high is None or high <= WIDEST * low


def overview(results: Results) -> list[str]:
    """The recommendation in a sentence for each device; empty where there is none."""
    where, programs = _where(results), _programs(results)
    return [
        f"{where[picks[0].device]}{_device_line(picks, programs)}"
        for picks in _by_device(results)[:MOST_TOLD]
    ]


def _where(results: Results) -> dict[str, str]:
    """``orin-1: `` by device, before what is said of it; empty where there is one device."""
    names = short_devices(pick.device for pick in results.recommendations)
    several = len(names) > 1
    return {device: f"{display_name(name)}: " * several for device, name in names.items()}


def overview_sources(results: Results) -> list[list[str]]:
    """Where the figures behind each line of the overview come from."""
    return [
        list(
            dict.fromkeys(
                choice.source for choice in _choices(_in_commonest_mode(_told(picks) or picks))
            )
        )
        for picks in _by_device(results)[:MOST_TOLD]
    ]


def _by_device(results: Results) -> list[list[Recommendation]]:
    picks = [pick for pick in results.recommendations if pick.choice is not None]
    devices = dict.fromkeys(pick.device for pick in picks)
    return [[pick for pick in picks if pick.device == device] for device in devices]


def _certain(picks: Sequence[Recommendation]) -> list[Recommendation]:
    return [pick for pick in picks if is_certain(pick)]


def _told(picks: Sequence[Recommendation]) -> list[Recommendation]:
    """The certain ones without ``lacks_rivals``; all certain ones if there is no other."""
    certain = _certain(picks)
    return [pick for pick in certain if not pick.lacks_rivals] or certain


def _in_commonest_mode(picks: Sequence[Recommendation]) -> list[Recommendation]:
    modes = Counter(choice.mode for choice in _choices(picks))
    mode, _ = max(modes.items(), key=lambda item: (item[1], item[0]))
    return [pick for pick in picks if pick.choice is not None and pick.choice.mode == mode]


def count_networks(picks: Iterable[Recommendation]) -> int:
    """How many networks ``picks`` are of: the stages of a language model are one."""
    stages = {pick.network: stage_of(pick.network) for pick in picks}
    return len({stage[0] if stage else network for network, stage in stages.items()})


def _choices(picks: Sequence[Recommendation]) -> list[Candidate]:
    return [pick.choice for pick in picks if pick.choice is not None]


def _programs(results: Results) -> set[str]:
    """Programs that were run and their windows, by the names that predictions have for them."""
    return {row.workload for row in results.programs}


def _device_line(picks: Sequence[Recommendation], programs: Collection[str]) -> str:
    if not _certain(picks):
        who = _named(list(dict.fromkeys(display_name(pick.network) for pick in picks)))
        return f"The modes of {who} are {TOO_UNCERTAIN}."
    if len(picks) == 1:
        return _line(picks[0].sentence)
    same = _in_commonest_mode(_told(picks))
    choices, n_same, n_all = _choices(same), count_networks(same), count_networks(picks)
    mode = choices[0].mode
    n_roofs = count_networks(
        [pick for pick in same if pick.choice and pick.choice.interval == "roof"]
    )
    whose = "" if n_roofs == n_same else f"for {n_roofs} of them "
    by_roofs = f", {whose}by the roofs alone" if n_roofs else ""
    kinds = {pick.network in programs for pick in picks}
    what = (
        "networks and programs" if len(kinds) > 1 else "programs" if True in kinds else "networks"
    )
    who = f"{n_same} of {n_all} {what}" if n_same < n_all else f"all {n_same} {what}"
    if all(pick.lacks_rivals for pick in same):
        return f"{display_name(mode)} is the only mode in which {who} ran: {MEASURE_MORE} modes."
    claims = {pick.claim for pick in same}
    claim = claims.pop() if len(claims) == 1 else "is recommended"
    return f"{display_name(mode)} {claim} for {who}{by_roofs}{_typical(same, mode)}."


def _typical(same: Sequence[Recommendation], mode: str) -> str:
    """The median change against the highest mode, in words; none against itself, or of bounds."""
    savings = [advice.savings[0] for advice in same if advice.savings]
    if any(advice.latency_ratio is None for advice in savings):
        return ""
    if len({saving.mode for saving in savings}) != 1 or savings[0].mode == mode:
        return ""
    parts = [
        f"{_change(median(ratios))} {what}"
        for what, ratios in (
            ("energy", [s.energy_ratio for s in savings if s.energy_ratio is not None]),
            ("power", [s.power_ratio for s in savings if s.power_ratio is not None]),
            ("time", [s.latency_ratio for s in savings if s.latency_ratio is not None]),
        )
        if ratios
    ]
    if not parts:
        return ""
    return f": compared with {display_name(savings[0].mode)} {', '.join(parts)} (medians)"


def advice(results: Results) -> list[Advice]:
    """The first recommendations in full."""
    was_run = {row.network for row in results.measured} | _programs(results)
    where = _where(results)
    picks = results.recommendations[:MOST_TOLD]
    return [_advice(pick, where[pick.device], was_run) for pick in picks]


def refusals(results: Results) -> list[str]:
    """Networks for which no mode can be recommended, those of one reason in one line."""
    said: dict[str, list[str]] = {}
    for refused in results.recommendations:
        if refused.choice is None:
            name = display_name(refused.network)
            said.setdefault(refused.sentence.replace(f"for {name}:", "for {}:", 1), []).append(name)
    return [_line(text.replace("{}", _named(names), 1)) for text, names in said.items()]


def _named(names: Sequence[str]) -> str:
    """``a, b and c``; of many ``12 networks (a, b, c, …)``."""
    if len(names) <= MOST_NAMED:
        return listed(names)
    return f"{counted(len(names), 'network')} ({', '.join(names[:MOST_NAMED])}, …)"


def advice_table(results: Results) -> Table:
    """Every network's recommended mode with what it costs and saves."""
    names = short_devices(pick.device for pick in results.recommendations)
    programs, several = _programs(results), len(names) > 1
    picks = [pick for pick in results.recommendations if pick.choice is not None]
    rows = [
        _row(pick, [display_name(names[pick.device])] if several else [], programs)
        for pick in picks[:MOST_ROWS]
    ]
    n_left = len(picks) - len(rows)
    more = f", {MOST_ROWS} of {n_left + len(rows)}" if n_left else ""
    device = ("Device",) * several
    columns = (
        *("Network", *device, "Mode", "Batch", "Precision", "Latency of one batch"),
        *("Energy of one item", "Power", "Compared with", "Energy", "Time", "Power "),
    )
    numeric = frozenset({at + several for at in (2, 4, 5, 6, 8, 9, 10)})
    what = "network or program" if programs else "network"
    return Table(f"Recommended mode of each {what}{more}", columns, rows, numeric)


def _advice(pick: Recommendation, where: str, was_run: Collection[str]) -> Advice:
    commands = pick.commands
    return Advice(
        sentence=f"{where}{_line(pick.sentence)}",
        why=[_line(reason) for reason in (*pick.why, *_beside(pick, was_run))],
        neighbours=_neighbours(pick),
        set_lines=commands.set_lines if commands is not None else (),
        undo_lines=commands.undo_lines if commands is not None else (),
        notes=[_line(note) for note in (*pick.notes, *(commands.notes if commands else ()))],
    )


def _beside(pick: Recommendation, was_run: Collection[str]) -> Iterator[str]:
    """The best measured mode beside a modelled one, and the measurement that decides most.

    ``was_run``: what Mansard ran, so that it can be run again; the page has no command for it.
    """
    if pick.measured is not None:
        yield f"best measured: {pick.measured.why_lost}"
    if pick.measure_next is not None:
        command = f"mansard recommend {shlex.quote(pick.network)} says how"
        how = command if pick.network in was_run else pick.measure_next.how
        yield f"next: {pick.measure_next.what}: {how}"


def _neighbours(pick: Recommendation) -> Table:
    rows = [
        [
            display_name(other.candidate.mode),
            str(other.candidate.batch),
            *_costs(other.candidate),
            _line(other.why_lost) if _is_ranked(other.candidate) else TOO_UNCERTAIN,
        ]
        for other in pick.neighbours
    ]
    columns = ("Mode", "Batch", "Latency of one batch", "Energy of one item", "Power", "Why not")
    caption = "Its neighbours on the Pareto front"
    return Table(caption, columns, rows, frozenset({1, 2, 3, 4}))


def _row(pick: Recommendation, where: list[str], programs: Collection[str]) -> list[str]:
    choice = pick.choice
    assert choice is not None  # noqa: S101 - the caller keeps those with a choice
    head = [display_name(pick.network), *where]
    highest = next(iter(pick.savings), None)
    return [
        *head,
        display_name(choice.mode) if is_certain(pick) else MEASURE_MORE,
        *(
            ("–", "–")
            if pick.network in programs
            else (str(choice.batch), display_name(choice.precision))
        ),
        *_costs(choice),
        *_saving_cells(highest if is_certain(pick) else None, choice.mode),
    ]


def _costs(of: Candidate) -> list[str]:
    return [
        seconds(of.latency_s, of.latency_low_s, of.latency_high_s, of.interval),
        joules(of.energy_j, of.energy_low_j, of.energy_high_j, of.interval),
        watts(of.power_w, of.power_low_w, of.power_high_w, of.interval),
    ]


def _saving_cells(saving: Saving | None, mode: str) -> list[str]:
    if saving is None:
        return ["", "", "", ""]
    if saving.mode == mode:
        return [f"{display_name(mode)} itself", "", "", ""]
    names = ("energy", "time", "power")
    return [display_name(saving.mode), *[change_of(saving, name) or UNKNOWN for name in names]]


def _line(text: str) -> str:
    """A sentence with names from outside in it; the spaces before its units are our own."""
    return display_text(text.replace(NBSP, " "))


def _change(ratio: float | None) -> str:
    if ratio is None:
        return UNKNOWN
    shown = percent(abs(ratio - 1))
    sign = "+" if ratio > 1 else "\u2212"
    return shown if shown == percent(0.0) else f"{sign}{shown}"
