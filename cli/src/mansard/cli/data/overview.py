"""The short end of ``bench``, ``demo`` and ``report``: five networks, ceilings, one next command.

Modes stand side by side, as many as fit the terminal; ``--all`` has the rest.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mansard.analytics.data.quantities import counted, digits, joules, seconds, watts
from mansard.api import results
from mansard.cli.console import is_verbose
from mansard.cli.data.network_runs import device_cells, run_tables, why_lines
from mansard.cli.data.summary import (
    REST,
    accuracy_tables,
    ceiling_remark,
    ceiling_text,
    evenly,
    grouped,
    limit_text,
    mode_names,
    share_of,
    title_with_rest,
)
from mansard.cli.tables import fits, measured_source, without_silent
from mansard.cli.terminal import columns
from mansard.core.table import Table
from mansard.core.text import natural_key

_MOST_NETWORKS, _MOST_MODES, _MOST_DEVICES = 5, 4, 3
_MOST_MEASURED = 20  # rows of what a command just measured
# The networks that readers know best come first where not all are shown.
_WELL_KNOWN = ("resnet50", "mobilenet_v2", "yolov8n", "bert_base", "vit_b_16", "gpt2")
_PRECISIONS = ("fp16", "fp32")  # the first of them that a network was scored in
_AT_BEST = "at best "
_RUN = ("batch", "precision")
_HEADS = ("network", *_RUN)

_Cells = dict[str, str]  # the text of each mode

# In quotes: bench then imports neither record.
_OfDevice = TypeVar("_OfDevice", "results.ProgramTimes", "results.GenerationTimes")


def overview_tables(summary: results.Summary, run_ids: Collection[str] | None) -> list[Table]:
    """Networks, programs and servers of the first devices; ``run_ids`` narrows it to these runs."""
    summary = summary.of_runs(run_ids)
    modes, networks, measured = summary.modes, summary.networks, summary.measured
    devices = list(grouped(modes, lambda mode: mode.machine_id).values())
    tables = _run_tables(measured, networks)
    if not measured and len(modes) == 1 and networks:
        tables.append(_modelled_in_one_mode(networks))
    elif not measured:
        for group in devices[:_MOST_DEVICES]:
            ids = {mode.run_id for mode in group}
            tables += _modelled_by_mode(
                [network for network in networks if network.run_id in ids], group
            )
    tables += accuracy_tables(summary.accuracies)
    if summary.programs:
        tables.append(programs_table(summary.programs))
    if summary.generations:
        tables.append(generations_table(summary.generations))
    return tables


def ceiling_tables(summary: results.Summary, run_ids: Collection[str] | None) -> list[Table]:
    """The ceilings of the first devices, each with its modes side by side."""
    modes = summary.of_runs(run_ids).modes
    devices = list(grouped(modes, lambda mode: mode.machine_id).values())
    return [_ceilings(device) for device in devices[:_MOST_DEVICES]]


def overview_lines(summary: results.Summary, run_ids: Collection[str] | None) -> Iterator[str]:
    """Why modes are recommended, and how many devices the tables leave out."""
    summary = summary.of_runs(run_ids)
    yield from why_lines(summary.measured, _MOST_NETWORKS)
    n_left = len({mode.machine_id for mode in summary.modes}) - _MOST_DEVICES
    if n_left > 0:
        yield f"{counted(n_left, 'more device')}: {REST}"


def _run_tables(
    measured: Sequence[results.NetworkTimes], networks: Sequence[results.NetworkSummary]
) -> list[Table]:
    bounds = {row.model_hash: limit_text(row) for row in networks if row.bound is not None}
    devices = list(grouped(measured, lambda row: row.device).values())[:_MOST_DEVICES]
    return [table for rows in devices for table in run_tables(rows, _MOST_NETWORKS, bounds)]


def by_device(
    rows: Sequence[_OfDevice], table: Callable[[Sequence[_OfDevice], str | None], Table]
) -> list[Table]:
    """One table for each device, with its name if there are several."""
    devices = grouped(rows, lambda row: row.device)
    several = len(devices) > 1
    return [table(group, device if several else None) for device, group in devices.items()]


def programs_table(programs: Sequence[results.ProgramTimes], device: str | None = None) -> Table:
    """Programs and their windows: time, energy, power and metric."""
    names = device_cells(programs)
    rows = [
        (
            names[row.device],
            row.workload,
            row.mode,
            row.label,
            seconds(row.time_s, row.low_s, row.high_s),
            joules(row.energy_j, row.energy_low_j, row.energy_high_j),
            watts(row.power_w),
            "–" if row.metric is None else digits(row.metric),
            str(row.n_runs),
            measured_source(row.source),
            row.remark,
        )
        for row in programs[:_MOST_MEASURED]
    ]
    heads = (
        *("device", "program", "mode", "label", "time", "energy", "power", "metric", "runs"),
        *("source", "remark"),
    )
    what = "Programs" if device is None else f"Programs on {device}"
    title = title_with_rest(what, share_of(len(rows), len(programs), "rows"))
    silent = {"device", "label", "energy", "power", "metric"}
    return without_silent(Table(title, heads, rows), silent)


def generations_table(times: Sequence[results.GenerationTimes], device: str | None = None) -> Table:
    """Servers of language models: first token, rates of tokens and energies of both phases."""
    names = device_cells(times)
    rows = [
        (
            names[row.device],
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
            measured_source(row.source),
            row.remark,
        )
        for row in times[:_MOST_MEASURED]
    ]
    heads = (
        *("device", "model", "server", "mode", "label", "tokens", "at once", "first token"),
        *("token", "decode tokens/s", "output tokens/s", "prefill J/token", "decode J/token"),
        *("power", "source", "remark"),
    )
    what = share_of(len(rows), len(times), "rows")
    of = "Language model servers"
    title = title_with_rest(of if device is None else f"{of} on {device}", what)
    silent = {"device", "label", "prefill J/token", "decode J/token", "power"}
    return without_silent(Table(title, heads, rows), silent)


def _of(device: str, sources: Iterable[str]) -> str:
    """`` of Jetson AGX Orin 64GB (published)``: the device, and where its figures come from."""
    source = " and ".join(dict.fromkeys(sources))
    return f" of {device}" if f"({source})" in device else f" of {device} ({source})"


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
        table = _with_modes(title, left, heads, modes, evenly(modes, n_modes), rows)
        if fits(table, columns(sys.stdout)):
            return table
    return _with_modes(title, left, heads, modes, evenly(modes, 1), rows)


def _with_modes(
    title: str,
    left: str,
    heads: Sequence[str],
    modes: Sequence[str],
    shown: Sequence[str],
    rows: Mapping[tuple[str, ...], _Cells],
) -> Table:
    cells = [(*key, *(texts.get(mode, "–") for mode in shown)) for key, texts in rows.items()]
    title = title_with_rest(title, left, share_of(len(shown), len(modes), "modes"))
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
        heads = ("ceiling", "kernel", "value", "remark")
        table = Table(f"{title} in {_mode_words(modes[0].mode)}", heads, texts)
        return table if is_verbose() else table.without({"kernel", "remark"})
    rows: dict[tuple[str, ...], _Cells] = {}
    for mode, ceiling in ceilings:
        rows.setdefault((ceiling.name,), {})[names[mode.run_id]] = ceiling_text(ceiling)
    return _side_by_side(title, "", ("ceiling",), list(names.values()), rows)


def _mode_words(mode: str) -> str:
    """``2c (2 cores)``: what a plain machine's modes mean."""
    n_cores = re.fullmatch(r"([0-9]+)c", mode)
    return mode if n_cores is None else f"{mode} ({n_cores[1]} core{'s' * (n_cores[1] != '1')})"


def _modelled_in_one_mode(networks: Sequence[results.NetworkSummary]) -> Table:
    """Five networks: the modelled time and its bound."""
    chosen = _chosen(networks)
    rows = [
        (
            network.model,
            *_run_cells(network.batch, network.precision),
            seconds(network.time_s, network.low_s, network.high_s, network.interval),
            joules(network.energy_j, network.energy_low_j, network.energy_high_j, network.interval),
            limit_text(network),
        )
        for network in chosen
    ]
    n_all = len({network.model_hash for network in networks})
    left = share_of(len(chosen), n_all, "networks, the best known")
    heads = (*_HEADS, "time", "energy", "bound by")
    title = title_with_rest("Networks, modelled", left)
    return without_silent(Table(title, heads, rows), {"energy"})


def _chosen(networks: Sequence[results.NetworkSummary]) -> list[results.NetworkSummary]:
    """Five networks, each once: at its smallest batch, in the precision that it is best run in."""
    places = {name: at for at, name in enumerate(_WELL_KNOWN)}
    precisions = {name: at for at, name in enumerate(_PRECISIONS)}

    def order(network: results.NetworkSummary) -> tuple[object, ...]:
        return (
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
        (network.model_hash, network.batch, network.precision) for network in _chosen(networks)
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
    left = share_of(len(chosen), n_all, "networks, the best known")
    of = f" of {modes[0].machine}, modelled"
    return [
        _side_by_side(f"{what} of a batch{of}", left, _HEADS, [*names.values()], rows)
        for what, rows in (("Time", times), ("Energy", energies))
        if rows
    ]


def _run_cells(batch: int | None, precision: str) -> tuple[str, str]:
    return ("–" if batch is None else str(batch), precision)
