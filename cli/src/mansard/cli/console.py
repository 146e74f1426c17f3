"""What goes to stdout (data) and to stderr (progress and errors)."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from mansard.core.documents import readable_json
from mansard.core.text import printable

_PLAIN_PERIOD_S = 10.0  # between progress lines where there is no terminal


def print_error(line: str) -> None:
    """One line on stderr; a closed terminal must not turn it into a second error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"mansard: {line}\n")
        sys.stderr.flush()


def note(line: str) -> None:
    """Something worth knowing that is no error, on stderr."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{printable(line)}\n")
        sys.stderr.flush()


def print_json(value: object) -> None:
    """One JSON document on stdout: UTF-8, whatever the terminal's encoding is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(readable_json(value))


def prepare_streams() -> None:
    """Make stdout and stderr fit for anything that may be printed.

    A stream that was closed gets the null device: else the next file that is opened
    takes its number, and output would go into it. A character that the terminal
    cannot show is escaped instead of ending the command.
    """
    for number in range(3):
        with contextlib.suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - for good
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(null, "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def path_text(path: Path) -> str:
    """``path`` for a JSON document; bytes that are no UTF-8 are replaced, JSON has none."""
    return os.fsencode(path).decode("utf-8", "replace")


def flush_output() -> None:
    """Write out what stdout holds back; raises OSError where it cannot be written."""
    sys.stdout.flush()


def discard_output() -> None:
    """Forget what stdout holds back, so that leaving does not try to write it again."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; every cell is shown as text, never as markup.

    Columns of numbers are set flush right. Away from a terminal a table may be 160
    columns wide; longer cells are folded, never cut off.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)), title_justify="left", header_style="bold")
    for number, column in enumerate(columns):
        numeric = all(_is_number(row[number]) for row in rows)
        table.add_column(Text(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 160
    Console(width=width, highlight=False, markup=False, emoji=False).print(table)


def _is_number(cell: str) -> bool:
    first = cell.partition(" ")[0].replace(",", "")
    try:
        float(first)
    except ValueError:
        return cell in {"–", "unknown"}
    return True


class Progress(Protocol):
    """Shows how far a piece of long work is."""

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Show the state; called after every finished step."""


@contextlib.contextmanager
def show_progress(title: str) -> Iterator[Progress]:
    """A progress bar on a terminal, a line every ten seconds elsewhere."""
    if sys.stderr.isatty():
        with _bar(title) as progress:
            yield progress
    else:
        yield PlainProgress(title)


class PlainProgress:
    """A line every ten seconds, and one at the end."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._next_s = 0.0

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Say how far it is, if it is time for it."""
        if time.monotonic() < self._next_s and n_done < n_total:
            return
        self._next_s = time.monotonic() + _PLAIN_PERIOD_S
        left = f", {format_duration(remaining_s)} left" if remaining_s is not None else ""
        note(f"{self._title}: {n_done} of {n_total}{left} ({now})")


@contextlib.contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn(printable(title)),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[now]}", markup=False),
    )
    # Redrawn only when a step ends: a refreshing thread would disturb what is measured.
    with RichProgress(*columns, console=Console(stderr=True), auto_refresh=False) as rich:
        task = rich.add_task("", total=None, left="", now="")

        class Bar:
            def update(
                self, n_done: int, n_total: int, remaining_s: float | None, now: str
            ) -> None:
                left = "" if remaining_s is None else f"{format_duration(remaining_s)} left"
                rich.update(task, completed=n_done, total=n_total, left=left, now=printable(now))
                rich.refresh()

        yield Bar()


def format_duration(duration_s: float) -> str:
    """A duration for people: ``45 s``, ``2 min 05 s``, ``1 h 10 min``."""
    whole_s = max(0, round(duration_s))
    if whole_s < 60:
        return f"{whole_s} s"
    if whole_s < 3600:
        return f"{whole_s // 60} min {whole_s % 60:02d} s"
    return f"{whole_s // 3600} h {whole_s % 3600 // 60:02d} min"
