"""Logs of tegrastats, or the board's own as it runs: summaries, and files of every line."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Literal

import msgspec

from mansard.api.watch_files import holds_looks, read_samples
from mansard.core.errors import InputError
from mansard.core.hardware import Module
from mansard.core.records import Source
from mansard.core.storage.leftovers import temporary_folder
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

LIVE_INTERVAL_S = 0.1  # as fast as boards print; recorded at 9.5 lines a second
_ARRIVAL_S = 1e-3  # how well a line's arrival tells when it was measured
_MOST_COLUMNS = 4096  # more come from junk alone

OnLine = Callable[[TegrastatsSample, str, float | None], None]
"""Takes every line as it is read: the sample, its log, and its time in s where that is known."""


class LiveSummary(msgspec.Struct, frozen=True):
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

    ``logs``: plain or gzip'd files, or records of ``mansard watch`` (.jsonl); one that holds
    several recordings has a summary for each.
    ``interval_s``: the period between lines of logs without times; where the lines have times,
    those count. ``board``: root folder of the board that they are of. Raises InputError for a
    file that holds no line of tegrastats, StorageError where it cannot be read.
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
    log: Path, module: Module | None, each: Callable[[TegrastatsSample, Moment | None], None]
) -> Iterator[LogSummary]:
    """The summaries of a file that ``mansard watch --record`` wrote, one for each board."""
    boards: dict[str, Summariser] = {}
    for sample in read_samples(log):
        line, moment = as_line(sample), Moment(sample.time_s, _ARRIVAL_S)
        if sample.board not in boards:
            boards[sample.board] = Summariser(None, module, sample.source)
        boards[sample.board].add(line, moment)
        each(line, moment)
    if not boards:
        raise InputError("holds no look", where=str(log), fix="record one with mansard watch")
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
    """Run the board's tegrastats until ``duration_s`` is over or a Ctrl-C, and summarise it.

    ``board``: its root folder, this machine's by default. Raises DeviceError where there is no
    tegrastats or it stops, InputError or KeyboardInterrupt where no line came.
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
        if was_interrupted:
            raise KeyboardInterrupt
        raise InputError("no line came within --duration", fix="give it longer")
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
