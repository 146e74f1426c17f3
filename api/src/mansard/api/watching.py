"""Boards as they run: one record for each look, and logs of tegrastats.

Looks of this machine or of others are kept as a file, CSV or records, that is whole up to the last
row. Logs, or the board's own as it runs, become summaries and files of every line.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Literal, Protocol

from mansard.api.result import Result
from mansard.containers.board_watch import look_at_boards
from mansard.containers.hosts import read_hosts
from mansard.core.errors import InputError, MansardError, StorageError, UsageError
from mansard.core.hardware import Module
from mansard.core.records import BoardSample, Source
from mansard.core.storage.files import append_whole, open_rows
from mansard.core.storage.jsonl import RowReader, RowWriter
from mansard.core.storage.leftovers import temporary_folder
from mansard.device.controller import check_root
from mansard.device.identity import find_module, is_simulated
from mansard.device.meters.tegrastats import live
from mansard.device.system import SYSTEM_ROOT
from mansard.device.tegrastats import TegrastatsSample
from mansard.device.tegrastats.columns import TEXT_COLUMNS, row
from mansard.device.tegrastats.files import read_lines
from mansard.device.tegrastats.parse import BATCH
from mansard.device.tegrastats.sample import as_line
from mansard.device.tegrastats.sessions import Moment
from mansard.device.tegrastats.summary import LogSummary, Summariser, summarise
from mansard.device.watching import SHORTEST_INTERVAL_S, BoardWatch, Wait, samples, sleep

_HEADER_BYTES = 200
_KINDS = (".csv", ".jsonl")


class SampleFile(Protocol):
    """A file that takes looks, one row each."""

    path: Path
    n_rows: int

    def take(self, sample: BoardSample) -> None:
        """Write one row; raises StorageError, the rows before it stay whole."""
        ...


@contextlib.contextmanager
def record_samples(path: Path, *, n_boards: int = 1) -> Iterator[SampleFile]:
    """A new file for looks; ``.jsonl`` has whole records, ``.csv`` a column for each number.

    A row is written at once and synced: a kill or a full disk costs the row that is being written
    at most. Raises UsageError for another ending, for several boards in one table and for a file
    that is there, StorageError.
    """
    if path.suffix not in _KINDS:
        raise UsageError(
            f"--record {str(path)!r} is neither a table nor records",
            fix="end its name in .csv or .jsonl",
        )
    if n_boards > 1 and path.suffix == ".csv":
        raise UsageError(
            "a table holds one board, whose rails and sensors are its columns",
            fix="record several boards into a .jsonl file",
        )
    if path.exists() or path.is_symlink():
        raise UsageError(f"--record {path} already exists", fix="give another name, or remove it")
    if path.suffix == ".jsonl":
        with RowWriter(path, BoardSample) as writer:
            yield _Records(writer)
        return
    handle = open_rows(path)
    try:
        yield _Table(handle, path)
    finally:
        os.close(handle)


def read_samples(path: Path) -> Iterator[BoardSample]:
    """The looks of a ``.jsonl`` file that ``record_samples`` wrote; a torn last row is left out.

    Raises SchemaError, StorageError.
    """
    for batch in RowReader(path, BoardSample).batches():
        yield from batch


@contextlib.contextmanager
def _telling(file: SampleFile) -> Iterator[None]:
    """Says in an error of its block how many rows are whole."""
    try:
        yield
    except StorageError as error:
        raise StorageError(
            f"{error.what}; the {file.n_rows} rows before it are whole",
            where=error.where,
            fix="free some space, and record into another file",
        ) from error


def holds_looks(path: Path) -> bool:
    """Whether a file is one of ``record_samples``' records, by its first line."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open("rb") as stream:
        line = stream.readline(_HEADER_BYTES)
    return b'"schema":"%s"' % BoardSample.schema.name.encode() in line


class _Records:
    def __init__(self, writer: RowWriter[BoardSample]) -> None:
        self._writer, self.path, self.n_rows = writer, writer.path, 0

    def take(self, sample: BoardSample) -> None:
        with _telling(self):
            self._writer.append(sample)
        self.n_rows += 1


class _Table:
    """A column for each number of the first look; what is unknown is empty.

    A part that turns up later, such as a core that was off, has no column.
    """

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self.path = handle, path
        self._columns: tuple[str, ...] = ()
        self.n_rows = 0

    def take(self, sample: BoardSample) -> None:
        cells = flat(sample)
        rows: list[list[object]] = []
        if not self._columns:
            self._columns = tuple(cells)
            rows.append(list(self._columns))
        rows.append([cells.get(name) for name in self._columns])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        with _telling(self):
            append_whole(self._handle, text.getvalue().encode(), self.path)
        self.n_rows += 1


def flat(sample: BoardSample) -> dict[str, object]:
    """One look as the cells of a row, by column; None where something is unknown."""
    cells: dict[str, object] = {
        "time_s": round(sample.time_s, 3),
        "watched_s": round(sample.watched_s, 3),
        "board": sample.board,
        "source": sample.source,
        "mode": sample.mode,
    }
    for cpu in sample.cpus:
        cells |= _named(f"cpu{cpu.cpu}", cpu, ("busy_share", "clock_hz", "cap_hz"))
    for gpu in sample.gpus:
        cells |= _named(gpu.gpu, gpu, ("busy_share", "clock_hz", "cap_hz"))
        if gpu.memory_total_bytes is not None:  # a card; a Jetson's GPU has none of its own
            cells |= _named(gpu.gpu, gpu, ("memory_used_bytes",))
    cells |= {name: getattr(sample, name) for name in _NUMBERS}
    for zone in sample.zones:
        cells[f"{zone.zone}_temperature_c"] = zone.temperature_c
    for rail in sample.rails:
        cells |= _named(rail.rail, rail, ("power_w", "energy_j"))
    cells |= {name: getattr(sample, name) for name in ("power_w", "energy_j", "unmetered_s")}
    causes = dict.fromkeys(one.cause for one in sample.limits if one.is_throttling)
    is_known = causes or sample.n_throttle_events is not None
    cells["throttled_by"] = " ".join(causes) if is_known else None
    cells |= {"n_throttle_events": sample.n_throttle_events}
    cells |= {"n_overcurrent_events": sample.n_overcurrent_events}
    users = sample.gpu_processes
    cells["gpu_processes"] = None if users is None else "; ".join(users)
    return cells


_NUMBERS = (
    "memory_clock_hz",
    "memory_busy_share",
    "memory_used_bytes",
    "swap_used_bytes",
    "fan_speed_rpm",
    "fan_drive_share",
)


def _named(name: str, part: object, fields: tuple[str, ...]) -> dict[str, object]:
    return {f"{name}_{field}": getattr(part, field) for field in fields}


LIVE_INTERVAL_S = 0.1  # as fast as boards print; recorded at 9.5 lines a second
_ARRIVAL_S = 1e-3  # how well a line's arrival tells when it was measured
_MOST_COLUMNS = 4096  # more come from junk alone

OnLine = Callable[[TegrastatsSample, str, float | None], None]
"""Takes every line as it is read: the sample, its log, and its time in s where that is known."""


class LiveSummary(Result, frozen=True):
    """What a running tegrastats printed; ``was_interrupted``: by a Ctrl-C, before its end."""

    summary: LogSummary
    was_interrupted: bool


def telemetry(
    logs: Sequence[Path],
    *,
    interval_s: float | None = None,
    board: Path | None = None,
    on_line: OnLine | None = None,
) -> Iterator[LogSummary]:
    """Summaries of recorded logs, one after the other: ranges, energy of rails, utilisation.

    ``logs``: plain or gzip'd files, or records of ``mansard board watch`` (.jsonl); one that holds
    several recordings has a summary for each.
    ``interval_s``: the period between lines of logs without times; where the lines have times,
    those count. ``board``: root folder of the board that they are of. Raises InputError for a
    file without a line of tegrastats, StorageError for one that cannot be read.

    >>> import mansard as m
    >>> (summary,) = m.telemetry("tegrastats.log", interval_s=1.0)
    >>> summary.n_lines, summary.duration_s
    (3, 2.0)
    """
    module = None if board is None else find_module(board)
    for log in logs:
        name = str(log)

        def each(sample: TegrastatsSample, moment: Moment | None, name: str = name) -> None:
            if on_line is not None:
                on_line(sample, name, moment.time_s if moment is not None else None)

        if holds_looks(log):
            yield from _summarise_looks(log, module, each)
            continue
        n_ahead = BATCH if log.is_file() else 1  # a pipe's lines are shown as they come
        new = partial(Summariser, interval_s, module)
        yield from summarise(read_lines(log), name, new, each, n_ahead=n_ahead)


def _summarise_looks(
    log: Path, module: Module | None, take: Callable[[TegrastatsSample, Moment | None], None]
) -> Iterator[LogSummary]:
    """The summaries of a file that ``mansard board watch --record`` wrote, one for each board."""
    boards: dict[str, Summariser] = {}
    for sample in read_samples(log):
        line, moment = as_line(sample), Moment(sample.time_s, _ARRIVAL_S)
        if sample.board not in boards:
            boards[sample.board] = Summariser(None, module, sample.source)
        boards[sample.board].add(line, moment)
        take(line, moment)
    if not boards:
        raise InputError(
            "contains no samples", where=str(log), fix="record one with mansard board watch"
        )
    for session, (board, summariser) in enumerate(boards.items(), 1):
        begins = f"of {board}" if len(boards) > 1 else ""
        yield summariser.summary(str(log), session=session, begins=begins)


def live_telemetry(
    board: Path | None = None,
    *,
    interval_s: float = LIVE_INTERVAL_S,
    duration_s: float | None = None,
    on_line: OnLine | None = None,
) -> LiveSummary:
    """Run the board's tegrastats until a Ctrl-C, or ``duration_s`` of lines; then summarise it.

    ``board``: its root folder, this machine's by default. Raises DeviceError where there is no
    tegrastats or it stops, KeyboardInterrupt before the first line.
    """
    root = board or SYSTEM_ROOT
    source: Source = "simulated" if is_simulated(root) else "measured"
    summariser = Summariser(None, find_module(root), source)
    start_s: float | None = None
    was_interrupted = False
    with contextlib.ExitStack() as stack:
        try:
            for arrived_s, sample in stack.enter_context(live(root, interval_s, duration_s)):
                start_s = arrived_s if start_s is None else start_s
                moment = Moment(arrived_s - start_s, _ARRIVAL_S)
                summariser.add(sample, moment)
                if on_line is not None:
                    on_line(sample, "live", moment.time_s)
        except KeyboardInterrupt:
            was_interrupted = True
    if start_s is None:
        raise KeyboardInterrupt
    return LiveSummary(summariser.summary("live"), was_interrupted)


@contextlib.contextmanager
def write_lines(target: IO[bytes], form: Literal["csv", "parquet"]) -> Iterator[OnLine]:
    """What writes every line into ``target``; the file is whole when the block ends well.

    Both have a row for each line, and a column for each field that turned up.
    """
    with _Rows() as rows:
        yield rows.take
        if form == "csv":
            rows.write(target)
        else:
            _write_parquet(rows, target)


class _Rows:
    """Rows of a table whose columns turn up while it is written; constant memory.

    The rows wait in a temporary file, each as wide as the table was then, until the names of
    all columns are known.
    """

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        self._widths: list[tuple[int, int]] = []  # from which row on, how many columns
        self._n_rows = 0

    def __enter__(self) -> _Rows:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def take(self, sample: TegrastatsSample, log: str, time_s: float | None) -> None:
        """Keep one line."""
        cells = row(sample, log, time_s)
        for name in cells:
            if name not in self._columns and len(self._columns) < _MOST_COLUMNS:
                self._columns[name] = len(self._columns)
                self._widths.append((self._n_rows, len(self._columns)))
        self._writer.writerow([cells.get(name) for name in self._columns])
        self._n_rows += 1

    def write(self, target: IO[bytes]) -> None:
        """Write the names and all rows as CSV."""
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(self._columns)
        target.write(head.getvalue().encode())
        self._file.seek(0)  # writes out what is held back
        widths = dict(self._widths)  # the last of each row number: the widest
        missing = ""
        for number, line in enumerate(self._file):
            if number in widths:
                missing = "," * (len(self._columns) - widths[number])
            target.write(f"{line[:-1]}{missing}\n".encode())


def _write_parquet(rows: _Rows, target: IO[bytes]) -> None:
    from mansard.analytics.data.frames import csv_to_parquet

    with temporary_folder() as folder:
        table, written = folder / "rows.csv", folder / "rows.parquet"
        with table.open("wb") as stream:
            rows.write(stream)
        csv_to_parquet(table, written, TEXT_COLUMNS)
        with written.open("rb") as stream:
            shutil.copyfileobj(stream, target)


LONGEST_INTERVAL_S = 3600.0
OnLost = Callable[[str, MansardError], None]
"""Takes the name of a board that does not answer, and why; it is asked again."""


def watch(
    board: Path | None = None,
    *,
    hosts: Sequence[str] = (),
    hosts_file: Path | None = None,
    interval_s: float = 1.0,
    duration_s: float | None = None,
    n_samples: int | None = None,
    wait: Wait = sleep,
    on_lost: OnLost | None = None,
) -> Iterator[BoardSample]:
    """What a board does now, once in each interval, until ``duration_s`` or ``n_samples``.

    ``board``: the root folder of a simulated board; this machine by default. ``hosts``: boards
    elsewhere, read over ssh, each at its own pace; ``hosts_file`` names them. ``wait`` waits for
    seconds and returns True to end. Nothing is set and nothing is installed. Raises UsageError,
    InputError, and DeviceError if a single host cannot be reached.

    >>> import mansard as m
    >>> (sample,) = m.watch("agx-orin", n_samples=1)
    >>> sample.source, sample.mode, len(sample.cpus)
    ('simulated', '30W', 8)
    """
    check_interval(interval_s)
    if hosts:
        if board is not None:
            raise UsageError("--board and --host exclude each other", fix="name one of them")
        return look_at_boards(
            read_hosts(hosts, hosts_file),
            interval_s=interval_s,
            duration_s=duration_s,
            n_samples=n_samples,
            wait=wait,
            on_lost=on_lost,
        )
    root = SYSTEM_ROOT if board is None else board
    check_root(root)
    watched = BoardWatch(root, interval_s=interval_s)
    return samples(
        watched.read,
        interval_s=interval_s,
        duration_s=duration_s,
        n_samples=n_samples,
        wait=wait,
    )


def check_interval(interval_s: float) -> None:
    """Raises UsageError for an interval that is too short or too long."""
    if not SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        raise UsageError(
            f"an interval of {interval_s:g} s is out of range",
            fix=f"give {SHORTEST_INTERVAL_S:g} s to {LONGEST_INTERVAL_S:g} s",
        )
