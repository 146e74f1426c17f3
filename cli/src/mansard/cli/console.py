"""What goes to stdout (data) and to stderr (notes, progress, questions, errors)."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from mansard.api.reporter import LineProgress, ProgressDisplay, format_duration
from mansard.cli.tables import plain
from mansard.core.text import printable

_MOST_SAID = 1000  # notes that are known again
_said: dict[str, int] = {}


def print_error(line: str) -> None:
    """One line on stderr; a closed terminal must not turn it into a second error."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"mansard: {line}\n")
        sys.stderr.flush()


def note(line: str) -> None:
    """Print a note on stderr once; equal notes after it are counted."""
    text = printable(line)
    if text in _said:
        _said[text] += 1
        return
    if len(_said) < _MOST_SAID:
        _said[text] = 1
    _write_note(text)


def finish_notes() -> None:
    """Say how often the notes came that came more than once, and forget all."""
    repeated = [f"{text} ({count} times)" for text, count in _said.items() if count > 1]
    _said.clear()
    for text in repeated:
        _write_note(text)


def _write_note(text: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def print_json(value: object) -> None:
    """One JSON document on stdout: UTF-8, whatever the terminal's encoding is."""
    sys.stdout.flush()
    encoded = msgspec.json.encode(value, enc_hook=_path_text)
    sys.stdout.buffer.write(msgspec.json.format(encoded) + b"\n")


def print_json_line(schema: str, value: object) -> None:
    """One JSON object with its schema on a line of stdout, at once: for what comes one by one."""
    content = msgspec.json.encode(value, enc_hook=_path_text)
    head = msgspec.json.encode({"schema": f"mansard/{schema}", "version": 1})[:-1]
    sys.stdout.buffer.write(head + b"," + content[1:] + b"\n")


def _path_text(value: object) -> str:
    """A path for JSON; bytes that are no UTF-8 are replaced, JSON has none."""
    if isinstance(value, Path):
        return os.fsencode(value).decode("utf-8", "replace")
    raise NotImplementedError(type(value).__name__)


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


def print_lines(lines: Iterable[str]) -> None:
    """Lines on stdout, as text, without the no-break spaces between numbers and units."""
    for line in lines:
        sys.stdout.write(f"{printable(plain(line))}\n")


def flush_output() -> None:
    """Write out what stdout holds back; raises OSError where it cannot be written."""
    sys.stdout.flush()


def discard_output() -> None:
    """Forget what stdout holds back, so that leaving does not try to write it again."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class TerminalReporter:
    """Notes and progress of a command on stderr; questions where a person can answer them.

    ``is_agreed``: every question is answered with yes.
    """

    def __init__(self, *, is_agreed: bool = False) -> None:
        self._is_agreed = is_agreed

    def note(self, line: str) -> None:
        """One line."""
        note(line)

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """A bar on a terminal, a line every ten seconds elsewhere."""
        if sys.stderr.isatty():
            with _bar(title) as progress:
                yield progress
        else:
            yield LineProgress(title, note)

    def ask(self, question: str) -> bool:
        """Yes without asking where no person can answer."""
        if self._is_agreed or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return True
        import typer

        return typer.confirm(printable(question), default=True, err=True)


@contextlib.contextmanager
def _bar(title: str) -> Iterator[ProgressDisplay]:
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
