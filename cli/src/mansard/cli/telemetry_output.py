"""What becomes of the lines of tegrastats: tables, rows, documents; files whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import msgspec

from mansard.cli.telemetry_request import Request
from mansard.cli.telemetry_tables import print_sample, print_summary
from mansard.core.documents import readable_json
from mansard.core.files import replacing
from mansard.device.tegrastats import TegrastatsSample
from mansard.device.tegrastats.rows import document, row
from mansard.device.tegrastats.summary import LogSummary

_MOST_COLUMNS = 4096  # more come from junk alone


class Output(Protocol):
    """Takes every line, and the summary of every log."""

    def take(self, sample: TegrastatsSample, log: str, time_s: float | None) -> None: ...

    def finish_log(self, summary: LogSummary) -> None: ...


@contextlib.contextmanager
def open_output(request: Request) -> Iterator[Output]:
    """The output that ``request`` asks for; it is written when the block ends well."""
    if request.form == "table":
        yield _Tables(is_live=not request.logs, samples=request.samples)
        return
    with _target(request.output) as target:
        if request.form == "json" and not request.samples:
            documents = _Summaries()
            yield documents
            target.write(readable_json(documents.document()))
        elif request.form == "json":
            samples = _Documents(target)
            yield samples
            samples.close()
        else:
            with _Rows() as rows:
                yield rows
                if request.form == "csv":
                    rows.write(target)
                else:
                    _write_parquet(rows, target)


@contextlib.contextmanager
def _target(output: Path | None) -> Iterator[IO[bytes]]:
    if output is not None:
        with replacing(output) as stream:
            yield stream
    else:
        sys.stdout.flush()
        yield sys.stdout.buffer


class _Tables:
    """For people: the lines of a live board as they come, then the summary."""

    def __init__(self, *, is_live: bool, samples: bool) -> None:
        self._shows_lines = is_live or samples
        self._shows_summary = is_live or not samples
        self._n_shown = 0

    def take(self, sample: TegrastatsSample, log: str, time_s: float | None) -> None:
        del log
        if self._shows_lines:
            print_sample(sample, time_s, with_head=self._n_shown % 20 == 0)
            self._n_shown += 1

    def finish_log(self, summary: LogSummary) -> None:
        if self._shows_summary:
            print_summary(summary)


class _Summaries:
    """One JSON document of all summaries."""

    def __init__(self) -> None:
        self._summaries: list[LogSummary] = []

    def take(self, sample: TegrastatsSample, log: str, time_s: float | None) -> None:
        del sample, log, time_s

    def finish_log(self, summary: LogSummary) -> None:
        self._summaries.append(summary)

    def document(self) -> object:
        if len(self._summaries) == 1:
            return self._summaries[0]
        return {"summaries": self._summaries}


class _Documents:
    """One JSON document of all samples, written as they come."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._separator = b'{"samples": [\n'

    def take(self, sample: TegrastatsSample, log: str, time_s: float | None) -> None:
        self._target.write(self._separator + msgspec.json.encode(document(sample, log, time_s)))
        self._separator = b",\n"

    def finish_log(self, summary: LogSummary) -> None:
        del summary

    def close(self) -> None:
        self._target.write(b"\n]}\n")


class _Rows:
    """Rows of a table whose columns turn up while it is written; constant memory.

    The rows wait in a temporary file, each as wide as the table was then, until the names of
    all columns are known.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._widths: list[tuple[int, int]] = []  # from which row on, how many columns
        self._n_rows = 0

    def __enter__(self) -> _Rows:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def take(self, sample: TegrastatsSample, log: str, time_s: float | None) -> None:
        cells = row(sample, log, time_s)
        for name in cells:
            if name not in self._places and len(self._places) < _MOST_COLUMNS:
                self._places[name] = len(self._places)
                self._widths.append((self._n_rows, len(self._places)))
        self._writer.writerow([cells.get(name) for name in self._places])
        self._n_rows += 1

    def finish_log(self, summary: LogSummary) -> None:
        del summary

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self._places)

    def write(self, target: IO[bytes]) -> None:
        """Write the names and all rows as CSV."""
        head = io.StringIO()
        csv.writer(head, lineterminator="\n").writerow(self.columns)
        target.write(head.getvalue().encode())
        self._file.seek(0)  # writes out what is held back
        widths = dict(self._widths)  # the last of each row number: the widest
        missing = ""
        for number, line in enumerate(self._file):
            if number in widths:
                missing = "," * (len(self._places) - widths[number])
            target.write(f"{line[:-1]}{missing}\n".encode())


def _write_parquet(rows: _Rows, target: IO[bytes]) -> None:
    from mansard.analytics.data.frames import csv_to_parquet
    from mansard.device.tegrastats.rows import TEXT_COLUMNS

    with tempfile.TemporaryDirectory() as folder:
        table, written = Path(folder) / "rows.csv", Path(folder) / "rows.parquet"
        with table.open("wb") as stream:
            rows.write(stream)
        csv_to_parquet(table, written, TEXT_COLUMNS)
        with written.open("rb") as stream:
            shutil.copyfileobj(stream, target)
