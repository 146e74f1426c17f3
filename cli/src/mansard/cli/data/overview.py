"""The short end of ``bench``, ``demo`` and ``report``: ceilings, five networks, one next command.

Modes stand side by side, as many as fit the terminal; ``--all`` has the rest.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from mansard.analytics.data.quantities import digits, joules, seconds, watts
from mansard.api import results
from mansard.cli.data.summary import (
    accuracy_tables,
    ceiling_remark,
    ceiling_text,
    mode_names,
    percent_off,
)
from mansard.cli.tables import fits, without_silent
from mansard.cli.terminal import columns
from mansard.core.table import Table
from mansard.core.text import natural_key

_MOST_NETWORKS, _MOST_MODES, _MOST_DEVICES = 5, 4, 3
_MOST_MEASURED = 20  # rows of what a command just measured
# What readers know best; those that were run come before them.
_WELL_KNOWN = ("resnet50", "mobilenet_v2", "yolov8n", "bert_base", "vit_b_16", "gpt2")
_PRECISIONS = ("fp16", "fp32")  # the first of them that a network was scored in
_AT_BEST = "at best "
_REST = "--all has the rest"
_RUN = ("batch", "precision")
_HEADS = ("network", *_RUN)

_Cells = dict[str, str]  # the text of each mode

_Row = TypeVar("_Row")
_Key = TypeVar("_Key", bound=Hashable)
# By name: bench needs neither of them.
_OfDevice = TypeVar("_OfDevice", "results.ProgramTimes", "results.GenerationTimes")


def overview_tables(summary: results.Summary, run_ids: Collection[str] | None) -> list[Table]:
    """Ceilings and five networks of the first devices; ``run_ids`` narrows it to these runs."""
    summary = summary.of_runs(run_ids)
    modes, networks, measured = summary.modes, summary.networks, summary.measured
    devices = list(_grouped(modes, lambda mode: mode.machine_id).values())
    tables = [_ceilings(device) for device in devices[:_MOST_DEVICES]]
    if len(modes) == 1 and networks:
        tables.append(_networks_of_one_mode(networks, measured))
    elif measured:
        for rows in list(_grouped(measured, lambda row: row.device).values())[:_MOST_DEVICES]:
            if len({row.mode for row in rows}) == 1:
                tables.append(measured_table(rows, _MOST_NETWORKS))
            else:
                tables += _measured_by_mode(rows)
    else:
        for group in devices[:_MOST_DEVICES]:
            ids = {mode.run_id for mode in group}
            tables += _modelled_by_mode(
                [network for network in networks if network.run_id in ids], group
            )
    tables += accuracy_tables(summary.accuracies)
    if summary.programs:
        tables.append(programs_table(summary.programs))
    return [*tables, generations_table(summary.generations)] if summary.generations else tables


def left_devices(summary: results.Summary, run_ids: Collection[str] | None) -> str:
    """A line about the devices that the tables leave out; empty where they have all."""
    n_left = len({mode.machine_id for mode in summary.of_runs(run_ids).modes}) - _MOST_DEVICES
    return f"{n_left} more devices: {_REST}" if n_left > 0 else ""


def measured_table(times: Sequence[results.NetworkTimes], most: int = _MOST_MEASURED) -> Table:
    """The first networks that were run: time and energy, beside what was predicted."""
    rows = [
        (
            row.network,
            *_run_cells(row.batch, row.precision),
            row.engine,
            row.mode,
            row.label,
            seconds(row.time_s, row.low_s, row.high_s),
            joules(row.energy_j, row.energy_low_j, row.energy_high_j),
            seconds(
                row.predicted_s,
                row.predicted_low_s,
                row.predicted_high_s,
                row.predicted_interval,
            ),
            "unknown" if row.error is None else percent_off(row.error),
            row.source,
            row.remark,
        )
        for row in times[:most]
    ]
    heads = (
        *_HEADS,
        "engine",
        "mode",
        "label",
        "measured",
        "energy",
        "predicted",
        "error",
        "source",
    )
    title = _title_with_rest("Networks that were run", _share(len(rows), len(times), "rows"))
    silent = {"label", "energy", "predicted", "error"}
    return without_silent(Table(title, (*heads, "remark"), rows), silent)


def by_device(
    rows: Sequence[_OfDevice], table: Callable[[Sequence[_OfDevice], str | None], Table]
) -> list[Table]:
    """A table of the rows, or where they are of several devices one for each, with its name."""
    devices = _grouped(rows, lambda row: row.device)
    several = len(devices) > 1
    return [table(group, device if several else None) for device, group in devices.items()]


def programs_table(programs: Sequence[results.ProgramTimes], device: str | None = None) -> Table:
    """Programs that were run and their windows: time, energy, power and their metric."""
    rows = [
        (
            row.workload,
            row.mode,
            row.label,
            seconds(row.time_s, row.low_s, row.high_s),
            joules(row.energy_j, row.energy_low_j, row.energy_high_j),
            watts(row.power_w),
            "–" if row.metric is None else digits(row.metric),
            str(row.n_runs),
            row.source,
            row.remark,
        )
        for row in programs[:_MOST_MEASURED]
    ]
    heads = (
        *("program", "mode", "label", "time", "energy", "power", "metric", "runs", "source"),
        "remark",
    )
    what = "Programs that were run" if device is None else f"Programs that were run on {device}"
    title = _title_with_rest(what, _share(len(rows), len(programs), "rows"))
    return without_silent(Table(title, heads, rows), {"label", "energy", "power", "metric"})


def generations_table(times: Sequence[results.GenerationTimes], device: str | None = None) -> Table:
    """Servers of language models: first token, tokens and the energies of both phases."""
    rows = [
        (
            row.model,
            row.server,
            row.mode,
            row.label,
            f"{row.prompt_tokens} + {row.generate_tokens}",
            str(row.concurrency),
            seconds(row.first_token_s, row.first_token_low_s, row.first_token_high_s),
            seconds(row.token_s, row.token_low_s, row.token_high_s),
            *(
                "unknown" if rate is None else digits(rate)
                for rate in (row.decode_tokens_per_s, row.output_tokens_per_s)
            ),
            joules(row.prefill_token_j),
            joules(row.decode_token_j),
            watts(row.output_w),
            row.source,
            row.remark,
        )
        for row in times[:_MOST_MEASURED]
    ]
    heads = (
        *("model", "server", "mode", "label", "tokens", "at once", "first token", "token"),
        *(
            "decode tokens/s",
            "output tokens/s",
            "prefill J/token",
            "decode J/token",
            "power",
            "source",
            "remark",
        ),
    )
    what = _share(len(rows), len(times), "rows")
    of = "Servers of language models that were measured"
    title = _title_with_rest(of if device is None else f"{of} on {device}", what)
    silent = {"label", "prefill J/token", "decode J/token", "power"}
    return without_silent(Table(title, heads, rows), silent)


def _grouped(rows: Iterable[_Row], key: Callable[[_Row], _Key]) -> dict[_Key, list[_Row]]:
    groups: dict[_Key, list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _share(n_shown: int, n_all: int, what: str) -> str:
    return f"{n_shown} of {n_all:,} {what}" if n_shown < n_all else ""


def _title_with_rest(title: str, *left: str) -> str:
    """A title with what is left out of its table."""
    words = [word for word in left if word]
    return f"{title}; {', '.join(words)}: {_REST}" if words else title


def _of(device: str, sources: Iterable[str]) -> str:
    """`` of Jetson AGX Orin 64GB (published)``: the device, and where its figures come from."""
    source = " and ".join(dict.fromkeys(sources))
    return f" of {device}" if f"({source})" in device else f" of {device} ({source})"


def _evenly(names: Sequence[str], n: int) -> list[str]:
    """At most ``n`` of the names, the first and the last among them."""
    if len(names) <= n:
        return list(names)
    return [names[round(at * (len(names) - 1) / max(1, n - 1))] for at in range(n)]


def _side_by_side(
    title: str,
    left: str,
    heads: Sequence[str],
    modes: Sequence[str],
    rows: Mapping[tuple[str, ...], _Cells],
) -> Table:
    """A table with a column for each mode, as far as they fit the width.

    ``left``: what else it leaves out. What every cell begins with, "at best", stands in the title.
    """
    texts = [text for by_mode in rows.values() for text in by_mode.values() if text != "unknown"]
    if texts and all(text.startswith(_AT_BEST) for text in texts):
        title = f"{title}, at best"
        rows = {
            key: {mode: text.removeprefix(_AT_BEST) for mode, text in by_mode.items()}
            for key, by_mode in rows.items()
        }
    for n_modes in range(min(_MOST_MODES, len(modes)), 1, -1):
        table = _with_modes(title, left, heads, modes, _evenly(modes, n_modes), rows)
        if fits(table, columns(sys.stdout)):
            return table
    return _with_modes(title, left, heads, modes, _evenly(modes, 1), rows)


def _with_modes(
    title: str,
    left: str,
    heads: Sequence[str],
    modes: Sequence[str],
    shown: Sequence[str],
    rows: Mapping[tuple[str, ...], _Cells],
) -> Table:
    cells = [(*key, *(texts.get(mode, "–") for mode in shown)) for key, texts in rows.items()]
    title = _title_with_rest(title, left, _share(len(shown), len(modes), "modes"))
    if len(shown) == 1:
        return Table(f"{title}; {shown[0]}", (*heads, "value"), cells)
    return Table(title, (*heads, *shown), cells)


def _ceilings(modes: Sequence[results.ModeSummary]) -> Table:
    """The ceilings of one device: with kernels and remarks, or its modes side by side."""
    names = mode_names(modes)
    title = f"Ceilings{_of(modes[0].machine, (mode.source for mode in modes))}"
    ceilings = [(mode, ceiling) for mode in modes for ceiling in (*mode.peaks, *mode.bandwidths)]
    if len(modes) == 1:
        texts = [
            (ceiling.name, ceiling.kernel or "–", ceiling_text(ceiling), ceiling_remark(ceiling))
            for _, ceiling in ceilings
        ]
        return Table(
            f"{title} in {_mode_words(modes[0].mode)}",
            ("ceiling", "kernel", "value", "remark"),
            texts,
        )
    rows: dict[tuple[str, ...], _Cells] = {}
    for mode, ceiling in ceilings:
        rows.setdefault((ceiling.name,), {})[names[mode.run_id]] = ceiling_text(ceiling)
    return _side_by_side(title, "", ("ceiling",), list(names.values()), rows)


def _mode_words(mode: str) -> str:
    """``2c (2 cores)``: what a plain machine's modes mean."""
    n_cores = re.fullmatch(r"([0-9]+)c", mode)
    return mode if n_cores is None else f"{mode} ({n_cores[1]} core{'s' * (n_cores[1] != '1')})"


def _networks_of_one_mode(
    networks: Sequence[results.NetworkSummary], measured: Sequence[results.NetworkTimes]
) -> Table:
    """Five networks: the modelled time and its bound, beside what was measured."""
    ran = {(row.model_hash, row.batch, row.precision): row for row in reversed(measured)}
    chosen = _chosen(networks, {row.model_hash for row in measured})
    rows = []
    for network in chosen:
        row = ran.get((network.model_hash, network.batch, network.precision))
        rows.append(
            (
                network.model,
                *_run_cells(network.batch, network.precision),
                seconds(network.time_s, network.low_s, network.high_s, network.interval),
                "–" if row is None else seconds(row.time_s, row.low_s, row.high_s),
                "–" if row is None or row.error is None else percent_off(row.error),
                _energy_text(row),
                network.bound or network.unknown["bound"],
            )
        )
    source = " and ".join(dict.fromkeys(row.source for row in measured)) or "measured"
    heads = ("network", *_RUN, "modelled", source, "error", "energy", "bound by")
    n_all = len({network.model_hash for network in networks})
    title = _title_with_rest("Networks", _share(len(chosen), n_all, _which(measured)))
    return Table(title, heads, rows)


def _energy_text(row: results.NetworkTimes | None) -> str:
    if row is None or row.energy_high_j is None:
        return "–"
    return joules(row.energy_j, row.energy_low_j, row.energy_high_j)


def _which(measured: Sequence[results.NetworkTimes]) -> str:
    return "networks, those that were run first" if measured else "networks, the best known"


def _chosen(
    networks: Sequence[results.NetworkSummary], first: Collection[str]
) -> list[results.NetworkSummary]:
    """Five networks, each once: at its smallest batch, in the precision that it is best run in."""
    places = {name: at for at, name in enumerate(_WELL_KNOWN)}
    precisions = {name: at for at, name in enumerate(_PRECISIONS)}

    def order(network: results.NetworkSummary) -> tuple[object, ...]:
        return (
            network.model_hash not in first,
            places.get(network.model, len(places)),
            natural_key(network.model),
            network.batch or 0,
            precisions.get(network.precision, len(precisions)),
        )

    once = {network.model_hash: network for network in sorted(networks, key=order, reverse=True)}
    return sorted(once.values(), key=order)[:_MOST_NETWORKS]


def _modelled_by_mode(
    networks: Sequence[results.NetworkSummary],
    modes: Sequence[results.ModeSummary],
) -> list[Table]:
    """The modelled times, then the energies, of five networks of one device."""
    names = mode_names(modes)
    chosen = [
        (network.model_hash, network.batch, network.precision) for network in _chosen(networks, ())
    ]
    times: dict[tuple[str, ...], _Cells] = {}
    energies: dict[tuple[str, ...], _Cells] = {}
    for what in chosen:
        for network in networks:
            if (network.model_hash, network.batch, network.precision) != what:
                continue
            key, mode = (
                (network.model, *_run_cells(network.batch, network.precision)),
                names[network.run_id],
            )
            times.setdefault(key, {})[mode] = seconds(
                network.time_s, network.low_s, network.high_s, network.interval
            )
            if network.energy_j is not None:
                ends = (network.energy_low_j, network.energy_high_j, network.interval)
                energies.setdefault(key, {})[mode] = joules(network.energy_j, *ends)
    n_all = len({network.model_hash for network in networks})
    left = _share(len(chosen), n_all, "networks, the best known")
    of = f" of {modes[0].machine}, modelled"
    return [
        _side_by_side(f"{what} of a batch{of}", left, _HEADS, [*names.values()], rows)
        for what, rows in (("Time", times), ("Energy", energies))
        if rows
    ]


def _measured_by_mode(measured: Sequence[results.NetworkTimes]) -> list[Table]:
    """The times, then the energies, of five networks that were run on one device."""
    modes = list(dict.fromkeys(row.mode for row in measured))
    networks = list(dict.fromkeys(row.model_hash for row in measured))
    times: dict[tuple[str, ...], _Cells] = {}
    energies: dict[tuple[str, ...], _Cells] = {}
    shown = _first_runs(measured)[:_MOST_NETWORKS]
    for row in measured:
        if (row.model_hash, row.batch, row.precision, row.engine) not in shown:
            continue
        key = (row.network, *_run_cells(row.batch, row.precision), row.engine)
        times.setdefault(key, {})[row.mode] = seconds(row.time_s, row.low_s, row.high_s)
        if row.energy_j is not None:
            energies.setdefault(key, {})[row.mode] = joules(row.energy_j)
    left = _share(len(shown), len(networks), "networks")
    of = _of(measured[0].device, (row.source for row in measured))
    heads = (*_HEADS, "engine")
    return [
        _side_by_side(f"{what} of a batch{of}", left, heads, modes, rows)
        for what, rows in (("Time", times), ("Energy", energies))
        if rows
    ]


def _first_runs(measured: Sequence[results.NetworkTimes]) -> list[tuple[str, int | None, str, str]]:
    """Of each network how it was run first: at the smallest batch."""
    first: dict[str, tuple[str, int | None, str, str]] = {}
    for row in sorted(measured, key=lambda row: row.batch or 0):
        first.setdefault(row.model_hash, (row.model_hash, row.batch, row.precision, row.engine))
    return list(first.values())


def _run_cells(batch: int | None, precision: str) -> tuple[str, str]:
    return ("–" if batch is None else str(batch), precision)
