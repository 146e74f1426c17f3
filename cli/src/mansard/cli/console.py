"""What goes to stdout (data) and to stderr (notes, progress, questions, errors).

Prose is broken between words on a terminal. In a pipe or a file a sentence stays one line, so that
``grep`` finds it whole. A command or a path that is to be copied is never broken.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from mansard.cli.json_output import print_json as print_json  # noqa: PLC0414 - exported
from mansard.cli.remedies import with_given
from mansard.cli.terminal import (
    Tone,
    columns,
    has_colours,
    painted,
    plain,
    shown,
    tone_of,
    width_of,
    wrapped,
)
from mansard.core.storage.files import told_files
from mansard.core.text import printable
from mansard.sweeps.reporter import (
    WAITING,
    LineProgress,
    ProgressDisplay,
    SteadyTimeLeft,
    format_duration,
)

_MOST_SAID = 1000  # notes that are known again
_said: dict[str, int] = {}


class _Verbosity:
    is_quiet = False
    is_verbose = False
    tells_files = False


_verbosity = _Verbosity()
_QUIET, _VERBOSE = frozenset(("-q", "--quiet")), frozenset(("-v", "--verbose"))
_FILES = "-vv"  # the same as two of _VERBOSE


def take_verbosity(arguments: Sequence[str]) -> list[str]:
    """The arguments without ``-q`` and ``-v``, which apply from now on; the last of them counts.

    A second ``-v``, or ``-vv``, also tells files and durations.
    They may be before or after the command, but not after ``--``.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    given = [word for word in arguments[:end] if word in _QUIET | _VERBOSE | {_FILES}]
    _verbosity.is_quiet = bool(given) and given[-1] in _QUIET
    _verbosity.is_verbose = bool(given) and given[-1] not in _QUIET
    is_doubled = _FILES in given or sum(word in _VERBOSE for word in given) > 1
    _verbosity.tells_files = _verbosity.is_verbose and is_doubled
    return [word for word in arguments[:end] if word not in given] + list(arguments[end:])


def is_quiet() -> bool:
    """Whether the command was called with ``-q``."""
    return _verbosity.is_quiet


def is_verbose() -> bool:
    """Whether the command was called with ``-v``."""
    return _verbosity.is_verbose


@contextlib.contextmanager
def reporting_work() -> Iterator[None]:
    """With ``-vv``: which files the command reads and writes, and how long it took."""
    started_s = time.monotonic()
    with told_files(detail) if _verbosity.tells_files else contextlib.nullcontext():
        yield
    if _verbosity.tells_files:
        _write_note(f"took {time.monotonic() - started_s:.2f} s in all")


def print_error(line: str) -> None:
    """One line on stderr; a closed terminal must not turn it into a second error."""
    _write_prose(sys.stderr, f"mansard: {with_given(line)}", "bad")


def note(line: str) -> None:
    """Print a note on stderr once; equal notes after it are counted. None in quiet commands."""
    if _verbosity.is_quiet:
        return
    text = plain(shown(with_given(line)))
    if text in _said:
        _said[text] += 1
        return
    if len(_said) < _MOST_SAID:
        _said[text] = 1
    _write_note(text)


def detail(line: str) -> None:
    """A note of a verbose command."""
    if _verbosity.is_verbose:
        note(line)


def forget_notes() -> None:
    """Forget the notes of an earlier command in this process."""
    _said.clear()


def finish_notes() -> None:
    """Say how often the notes came that came more than once, and forget all."""
    repeated = [f"{text} ({count} times)" for text, count in _said.items() if count > 1]
    _said.clear()
    for text in repeated:
        _write_note(text)


def _write_note(text: str) -> None:
    with contextlib.suppress(OSError):  # one that fails is told at the end
        sys.stdout.flush()  # what was printed before the note is read before it
    _write_prose(sys.stderr, text, tone_of(text))


def _write_prose(stream: TextIO, text: str, tone: Tone | None) -> None:
    """``text`` with the word before its colon in colour; a closed terminal is no error."""
    lines = _prose_lines(stream, text)
    if has_colours(stream):
        word, colon, rest = lines[0].partition(":")
        lines[0] = f"{painted(word, tone)}{colon}{rest}"
    with contextlib.suppress(OSError):
        stream.write("".join(f"{line}\n" for line in lines))
        stream.flush()


def _prose_lines(stream: TextIO, text: str) -> list[str]:
    """``text`` in the lines of a terminal, those after the first further in; else as it is."""
    if not stream.isatty():
        return [text]
    lead = text[: len(text) - len(text.lstrip(" "))]
    return [plain(line) for line in wrapped(text, columns(stream), lead, f"{lead}  ")]


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
    """Sentences on stdout, as text, without the no-break spaces between numbers and units."""
    for line in lines:
        for part in _prose_lines(sys.stdout, shown(line)):
            sys.stdout.write(f"{plain(part)}\n")


def print_beside(lead: str, text: str, *, rest: int | None = None) -> None:
    """``text`` behind ``lead`` on stdout; on a terminal its lines stand under each other.

    ``rest``: columns before the lines after the first, if not those of ``lead``.
    """
    lines = [f"{lead}{shown(text)}"]
    if sys.stdout.isatty():
        indent = " " * (width_of(lead) if rest is None else rest)
        lines = wrapped(shown(text), columns(sys.stdout), lead, indent)
    if has_colours(sys.stdout) and (tone := tone_of(lead)) is not None:
        word = lead.split(" ", maxsplit=1)[0]
        lines[0] = painted(word, tone) + lines[0][len(word) :]
    for line in lines:
        sys.stdout.write(f"{plain(line)}\n")


def print_whole(*lines: str) -> None:
    """Lines on stdout that are to be copied: commands, paths. They are never broken or cut."""
    for line in lines:
        sys.stdout.write(f"{printable(line, len(line))}\n")


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

    ``is_agreed``: every question is answered with yes. ``most_notes``: the number of notes to
    show; with 0 the command itself points to -v.
    """

    def __init__(self, *, is_agreed: bool = False, most_notes: int | None = None) -> None:
        self._is_agreed = is_agreed
        self._most_notes = most_notes
        self._n_notes = 0

    def note(self, line: str) -> None:
        """One line; of many "note: …" the first ones, unless the command is verbose.

        A quiet command shows a note on waiting for the machine too: it explains the delay.
        """
        if _verbosity.is_quiet and line.endswith(WAITING):
            _write_note(plain(shown(line)))
            return
        self._n_notes += line.startswith("note:")
        is_shown = self._most_notes is None or self._n_notes <= self._most_notes
        if is_shown or _verbosity.is_verbose or not line.startswith("note:"):
            note(line)
        elif self._most_notes and self._n_notes - 1 == self._most_notes:
            note("note: -v shows more notes")

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """A bar on a terminal, a line every ten seconds elsewhere, nothing if it is quiet."""
        started_s = time.monotonic()
        if sys.stderr.isatty() and not _verbosity.is_quiet:
            with _bar(title) as progress:
                yield progress
        else:
            yield LineProgress(title, note)
        detail(f"{title}: took {time.monotonic() - started_s:.2f} s")

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
    # The bar disappears when it ends, so that the answer follows the command directly.
    console = Console(stderr=True)
    with RichProgress(*columns, console=console, auto_refresh=False, transient=True) as rich:
        task = rich.add_task("", total=None, left="", now="")
        steady = SteadyTimeLeft()

        class ProgressBar:
            def update(
                self, n_done: int, n_total: int, remaining_s: float | None, now: str
            ) -> None:
                steady_s = steady.remaining_s(n_done, n_total)
                remaining_s = steady_s if remaining_s is None else remaining_s
                left = "" if remaining_s is None else f"{format_duration(remaining_s)} left"
                rich.update(task, completed=n_done, total=n_total, left=left, now=printable(now))
                rich.refresh()

        yield ProgressBar()
