"""Published records in a folder of runs, and as the frames that models exchange.

A file, ``published/rates-<id>.jsonl``, ``runs-<id>.jsonl``, ``layers-<id>.jsonl`` or
``counters-<id>.jsonl``, is named by the hash of its content, so importing a table twice is
importing it once. Published devices never have the name of a measured one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
from msgspec.structs import replace

from mansard.analytics.data.layout import PUBLISHED_FOLDER
from mansard.analytics.data.model_frames import (
    COEFFICIENT_SCHEMA,
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
)
from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.published.cells import LARGEST_COUNT, LEAST, MOST
from mansard.analytics.data.published.doubts import power_doubts, rate_doubt, time_doubts
from mansard.analytics.data.published.importing import Imported
from mansard.analytics.data.published.modes import SameModes, fill_modes, find_same_modes
from mansard.analytics.data.published.origin import PublishedRow, table_id_of
from mansard.analytics.data.published.runs import lacks_batch, without_batch
from mansard.analytics.data.published.stages import timed_runs
from mansard.analytics.data.quantities import counted
from mansard.analytics.data.store import is_url
from mansard.core.errors import InputError
from mansard.core.records import (
    KernelCounters,
    PublishedLayer,
    PublishedMode,
    PublishedRate,
    PublishedRun,
    with_known,
)
from mansard.core.storage.files import entries_in, find_status, make_folder
from mansard.core.storage.jsonl import read_rows, write_rows

Row = TypeVar("Row", PublishedRate, PublishedRun, PublishedLayer, KernelCounters)
_ROW_TYPES: Mapping[str, Any] = {  # by Imported.kind
    "rates": PublishedRate,
    "runs": PublishedRun,
    "layers": PublishedLayer,
}


@dataclass(frozen=True)
class Published:
    """All figures of others in one folder of runs, by table and line.

    A mode has one name in all tables of a device: ``renamed`` says which had another.
    """

    rates: tuple[PublishedRate, ...] = ()
    runs: tuple[PublishedRun, ...] = ()
    layers: tuple[PublishedLayer, ...] = ()
    renamed: SameModes = field(default_factory=SameModes)

    @property
    def is_empty(self) -> bool:
        """Whether no rate and no run was imported: layers alone are no figures of a mode."""
        return not self.rates and not self.runs

    @property
    def rows(self) -> tuple[PublishedRate | PublishedRun, ...]:
        """Rates, then runs."""
        return (*self.rates, *self.runs)


def write_published(runs: Path, imported: Imported) -> tuple[Path, bool]:
    """Write a table into ``runs``; its path, and whether it was there before.

    Whole or not at all; raises StorageError.
    """
    row_type = _ROW_TYPES[imported.kind]
    return _write(runs, f"{imported.kind}-{imported.table_id}.jsonl", row_type, imported.rows)


def write_counters(runs: Path, table_id: str, rows: Sequence[KernelCounters]) -> tuple[Path, bool]:
    """Write the counters of an export into ``runs``, as ``write_published`` does."""
    return _write(runs, f"counters-{table_id}.jsonl", KernelCounters, rows)


def read_counters(*folders: Path) -> tuple[KernelCounters, ...]:
    """All counters that were imported into ``folders``; raises as ``read_published`` does."""
    return _read_all(folders, "counters", KernelCounters)


def _write(runs: Path, name: str, row_type: Any, rows: Sequence[Any]) -> tuple[Path, bool]:
    folder = make_folder(runs / PUBLISHED_FOLDER, runs)
    was_there = find_status(folder / name, runs) is not None
    write_rows(folder / name, row_type, rows, runs)
    return folder / name, was_there


def published_in(locations: Sequence[str]) -> Published:
    """What was imported into the local folders of ``locations``, a ``Dataset.locations``.

    A dataset on an object store has none: tables stay where they were imported.
    """
    return read_published(*(Path(location) for location in locations if not is_url(location)))


def read_published(*folders: Path) -> Published:
    """Everything that was imported into ``folders`` of runs; empty where nothing was.

    A table that is in two of them comes once.
    Raises SchemaError for a file of another version or with an unknown field, InputError for a
    file whose name is not what it holds, StorageError where one cannot be read.
    """
    tables = {kind: _read_all(folders, kind, row_type) for kind, row_type in _ROW_TYPES.items()}
    same = find_same_modes(row for rows in tables.values() for row in rows)
    renamed: dict[str, Any] = {
        kind: tuple(_renamed(row, same) for row in rows) for kind, rows in tables.items()
    }
    return Published(**renamed, renamed=same)


def _renamed(row: PublishedRow, same: SameModes) -> PublishedRow:
    name = same.names.get((row.table_id, row.mode.name))
    return row if name is None else replace(row, mode=replace(row.mode, name=name))


def _files(runs: Path, kind: str) -> list[Path]:
    folder = runs / PUBLISHED_FOLDER
    names = entries_in(folder, runs)
    return [folder / name for name in names if fnmatch(name, f"{kind}-*.jsonl")]


def _read_all(folders: Sequence[Path], kind: str, row_type: type[Row]) -> tuple[Row, ...]:
    rows: list[Row] = []
    paths = {path.name: path for at in folders for path in _files(at, kind)}
    for path in paths.values():
        table = read_rows(path, row_type, path.parent.parent)
        _check(path, table.rows, table.torn)
        rows += table.rows
    # By device, and not by what their hashes happen to be; a table keeps the order of its rows.
    return tuple(sorted(rows, key=lambda row: (row.device, row.table_id)))


def _check(path: Path, rows: Sequence[Row], torn: bytes | None) -> None:
    """A table is written in one step and named by its content: anything else was changed."""
    plain = tuple(replace(row, table_id="") for row in rows)
    table_id = table_id_of(plain)
    is_whole = torn is None and table_id == path.stem.partition("-")[2]
    if not is_whole or any(row.table_id != table_id for row in rows):
        raise InputError(
            "does not hold the table that its name says",
            where=str(path),
            fix="remove it and import the table again",
        )
    if not all(_is_sound(row) for row in rows):
        raise InputError("holds a number that no table has", where=str(path), fix="remove it")


def _is_sound(row: PublishedRow | KernelCounters) -> bool:
    """Whether every number is in the range that an import lets through."""
    if isinstance(row, KernelCounters):
        counts = [row.batch, row.n_launches, row.n_sms, row.row]
        works = [row.time_s, row.sm_cycles, *(work.flop for work in row.work)]
        bytes_ = [traffic.traffic_bytes for traffic in row.traffic]
        return all(x is None or 0 <= x <= MOST for x in (*works, *bytes_)) and all(
            n is None or 1 <= n <= LARGEST_COUNT for n in counts
        )
    mode = row.mode
    amounts = [mode.gpu_hz, mode.memory_hz, mode.cpu_hz, mode.power_limit_w]
    counts = [mode.n_sms, mode.n_cpus, row.row]
    if isinstance(row, PublishedRate):
        amounts.append(row.value)
    elif isinstance(row, PublishedLayer):
        amounts += [seconds or None for seconds in (row.mean_s, row.median_s)]  # 0 is too short
        counts += [row.batch, row.runs]
    else:
        amounts += [row.latency_s, row.power_w]
        amounts += [value or None for value in row.figures.values()]  # a depth of 0 tokens
        counts.append(row.batch)
    return all(amount is None or LEAST <= amount <= MOST for amount in amounts) and all(
        count is None or 1 <= count <= LARGEST_COUNT for count in counts
    )


Device = tuple[str, str]  # its name in the table, and the table's id
Rows = Sequence[PublishedRate | PublishedRun]


def device_names(published: Published) -> dict[Device, str]:
    """What each device of each table is called on pages and in frames.

    "(published)" keeps it from ever being the name of a measured one. Where several tables give
    rates of one device they are kept apart by the start of their ids: roofs of two authors are
    never one roof. A table of runs takes the name of the only table of rates and of other tables
    of runs, so that what was observed stands beside what the roofs predict and repeats of a mode
    are one network's, unless two of them mean other clocks by a mode.
    """
    tables: dict[Device, list[PublishedRate | PublishedRun]] = {}
    for row in published.rows:
        tables.setdefault((row.device, row.table_id), []).append(row)
    n_rated = Counter(_plain(rows) for rows in tables.values() if _are_rates(rows))
    names: dict[Device, str] = {}
    sharing: dict[str, list[Rows]] = {}  # the tables that have a name without a mark
    for key, rows in sorted(tables.items(), key=lambda table: not _are_rates(table[1])):
        name = _plain(rows)
        together = sharing.setdefault(name, [])
        if _are_rates(rows):
            is_shared = n_rated[name] == 1
        else:
            is_shared = all(_agree(rows, others) for others in together)
        if is_shared:
            together.append(rows)
        names[key] = f"{name} (published{'' if is_shared else f', {key[1][:6]}'})"
    return {key: names[key] for key in tables}


def _plain(rows: Rows) -> str:
    return f"{display_name(rows[0].device)}{' CPU' if rows[0].processor == 'cpu' else ''}"


def _are_rates(rows: Rows) -> bool:
    return isinstance(rows[0], PublishedRate)


def _agree(some: Rows, others: Rows) -> bool:
    """Whether modes of one name have the same clocks, as far as both tables know them."""
    modes = {row.mode.name: row.mode for row in others}
    return all(_same(row.mode, modes[row.mode.name]) for row in some if row.mode.name in modes)


def _same(one: PublishedMode, other: PublishedMode) -> bool:
    pairs = (
        (one.gpu_hz, other.gpu_hz),
        (one.memory_hz, other.memory_hz),
        (one.cpu_hz, other.cpu_hz),
        (one.n_sms, other.n_sms),
        (one.n_cpus, other.n_cpus),
        (one.power_limit_w, other.power_limit_w),
    )
    return all(a is None or b is None or a == b for a, b in pairs)


NO_INTERVAL = "published without an interval"


@dataclass(frozen=True)
class KnownModes:
    """The modes of all tables by device, as ``device_names`` has it, and name.

    A mode that several tables name has what any of them says. ``notes``: by device, what was
    filled and what could not be.
    """

    modes: Mapping[str, Mapping[str, PublishedMode]]
    notes: Mapping[str, tuple[str, ...]]


def known_modes(published: Published) -> KnownModes:
    """Every mode for which a table gives rates or networks, in the tables' order.

    Settings that no table says come from NVIDIA's table of the board: see ``modes``.
    """
    names = device_names(published)
    by_device: dict[str, dict[str, PublishedMode]] = {}
    rows: dict[str, PublishedRate | PublishedRun] = {}
    for row in published.rows:
        device = names[row.device, row.table_id]
        rows.setdefault(device, row)
        modes = by_device.setdefault(device, {})
        modes[row.mode.name] = _together(modes.get(row.mode.name, row.mode), row.mode)
    filled = {
        device: fill_modes(rows[device].device, rows[device].processor, modes)
        for device, modes in by_device.items()
    }
    renamed: dict[str, list[str]] = {}
    for (_, table_id), device in names.items():
        renamed.setdefault(device, []).extend(published.renamed.notes.get(table_id, ()))
    return KnownModes(
        {device: fill.modes for device, fill in filled.items()},
        {device: (*dict.fromkeys(renamed[device]), *fill.notes) for device, fill in filled.items()},
    )


def _together(one: PublishedMode, other: PublishedMode) -> PublishedMode:
    """``one`` with what ``other`` says and it does not."""
    if one is other or not one.unknown:
        return one
    added = {name: value for name in one.unknown if (value := getattr(other, name)) is not None}
    return with_known(one, **added)


def published_modes(published: Published) -> pl.DataFrame:
    """MODE_SCHEMA of ``known_modes``."""
    rows = [
        {"device": device, "mode": mode.name}
        | {name: getattr(mode, name) for name in MODE_SCHEMA if name not in ("device", "mode")}
        for device, modes in known_modes(published).modes.items()
        for mode in modes.values()
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


HARDWARE_METHOD = "limit of the hardware at the clocks of the mode"


def devices_of_rates(published: Published) -> frozenset[str]:
    """The devices, by the names of predictions, with measured rates."""
    names = device_names(published)
    others = (rate for rate in published.rates if rate.method != HARDWARE_METHOD)
    return frozenset(names[rate.device, rate.table_id] for rate in others)


def devices_of_hardware(published: Published) -> frozenset[str]:
    """The devices, by the names of predictions, all of whose rates are limits of hardware."""
    names = device_names(published)
    with_rates = {names[rate.device, rate.table_id] for rate in published.rates}
    return frozenset(with_rates - devices_of_rates(published))


def published_coefficients(published: Published) -> pl.DataFrame:
    """COEFFICIENT_SCHEMA: one row for each rate; without intervals, for tables give none.

    Rates that the mode's clocks do not allow are left out: see ``doubts``.
    """
    names, known = device_names(published), known_modes(published).modes
    rows = [
        {
            "device": names[rate.device, rate.table_id],
            "mode": rate.mode.name,
            "quantity": rate.quantity,
            "subject": rate.subject,
            "unit": rate.unit,
            "value": rate.value,
            "source": "published",
            "is_extrapolated": False,
            "reason": NO_INTERVAL,
        }
        for rate in published.rates
        if not rate_doubt(rate, known[names[rate.device, rate.table_id]][rate.mode.name])
    ]
    return pl.DataFrame(rows, schema=COEFFICIENT_SCHEMA)


def published_observations(published: Published) -> pl.DataFrame:
    """OBSERVATION_SCHEMA: one row for each network that others ran, with its citation.

    Of language models prefill and decode are rows, whose precision is that of their scores.
    Times whose batch a tool's file does not say are left out: see ``batch_notes``. The power of a
    row with a remark is to be doubted, and so are time and power of one in ``time_doubts``: no
    model and no decision sees them. A row that several tables share counts once.
    """
    names, doubts = device_names(published), doubted_times(published)
    powers = power_doubts(published.runs)
    rows = []
    first: dict[tuple[object, ...], str] = {}  # the table that has a row first
    for at, run in enumerate(published.runs):
        # A power is of the window of its time: what is wrong with one is in both.
        is_power_doubted = bool(run.remark) or at in powers or at in doubts
        same = {
            "device": names[run.device, run.table_id],
            "mode": run.mode.name,
            "phase": run.phase,
            "latency_deviation": run.figures.get("log_deviation"),
            "source": "published",
            "citation": run.citation,
            "reason": _why(
                run.unknown
                | ({"power_w": run.remark} if run.remark and run.power_w else {})
                | ({"power_w": powers[at]} if at in powers else {})
                | (dict.fromkeys(_doubted(run), doubts[at]) if at in doubts else {})
            ),
        }
        for one in timed_runs(run):
            own = (one.network, one.batch, one.precision, one.time_s, one.power_w)
            key = (same["device"], same["mode"], run.phase, *own)
            if first.setdefault(key, run.table_id) != run.table_id:
                continue
            rows.append({
                **same,
                "network": one.network,
                "batch": one.batch,
                "precision": one.precision,
                "latency_s": None if at in doubts else one.time_s,
                "power_w": None if is_power_doubted else one.power_w,
            })  # fmt: skip
    return pl.DataFrame(rows, schema=OBSERVATION_SCHEMA)


def _doubted(run: PublishedRun) -> tuple[str, ...]:
    return ("latency_s",) if run.power_w is None else ("latency_s", "power_w")


def doubted_times(published: Published) -> dict[int, str]:
    """Why times are doubtful, by the position of the run in ``published``."""
    names, known = device_names(published), known_modes(published).modes
    return time_doubts(
        published.runs, lambda run: known[names[run.device, run.table_id]][run.mode.name]
    )


def doubt_lines(published: Published) -> Iterator[str]:
    """A line for each device and citation with times or rates that no model uses."""
    names, known = device_names(published), known_modes(published).modes
    first: dict[tuple[str, str], list[str]] = {}
    for at, why in doubted_times(published).items():
        run = published.runs[at]
        key = (names[run.device, run.table_id], run.citation)
        first.setdefault(key, []).append(f"{display_text(run.network)} in {run.mode.name}: {why}")
    for rate in published.rates:
        device = names[rate.device, rate.table_id]
        if doubt := rate_doubt(rate, known[device][rate.mode.name]):
            first.setdefault((device, rate.citation), []).append(doubt)
    for (device, citation), reasons in first.items():
        what = counted(len(reasons), "figure")
        yield f"{device}: no model uses {what} of {display_text(citation)}: {reasons[0]}"


def batch_notes(published: Published) -> Iterator[str]:
    """A line for each citation with times that are no observations, because of their batch."""
    names = device_names(published)
    lacking = [run for run in published.runs if lacks_batch(run)]
    n_times = Counter((names[run.device, run.table_id], run.citation) for run in lacking)
    for (device, citation), n in n_times.items():
        times = f"{counted(n, 'time')} of {display_text(citation)}"
        yield f"{device}: {without_batch(times)}"


def _why(unknown: dict[str, str]) -> str | None:
    """Why the time or the power is not known, in a line; None where both are."""
    parts = [
        f"{what}: {unknown[name]}"
        for name, what in (("latency_s", "time"), ("power_w", "power"))
        if name in unknown
    ]
    return "; ".join(parts) or None
