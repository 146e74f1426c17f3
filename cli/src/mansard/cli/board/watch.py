"""``mansard board watch``: what a board does, live; recorded and exported too.

The live screen is drawn by Rich, left with q, and whole again at every end.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mansard import api
from mansard.api import results
from mansard.cli.board import watch_lines
from mansard.cli.board.watch_graphs import TimedLook, screen_lines, with_look
from mansard.cli.board.watch_lines import Line, brief_lines, fitted, in_ascii
from mansard.cli.console import is_quiet, note
from mansard.cli.json_output import print_json_line
from mansard.cli.options import BoardOption, HostsFileOption, JsonOption, parse_duration
from mansard.core.errors import MansardError, UsageError
from mansard.core.records import BoardSample
from mansard.core.text import printable

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"": "", "dim": "dim", "bold": "bold", "good": "green", "warn": "yellow", "bad": "red"}


class Keys:
    """Waits for seconds, and notices q and a window of another size meanwhile.

    A terminal's input is read key by key inside the ``with`` block, and as it was after it.
    """

    def __init__(self, on_resize: Callable[[], object] = lambda: None) -> None:
        self._on_resize = on_resize
        self._resized, self._notice = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stdin: int | None = None
        self._before: list[Any] | None = None

    def __enter__(self) -> Keys:
        with contextlib.suppress(OSError, ValueError, termios.error):
            handle = sys.stdin.fileno()
            # In the background a change of the terminal would stop us.
            if os.isatty(handle) and os.tcgetpgrp(handle) == os.getpgrp():
                self._before = termios.tcgetattr(handle)
                tty.setcbreak(handle)
                self._stdin = handle
        # A handler alone runs too late for a signal that comes just before select begins to wait.
        self._woken = signal.set_wakeup_fd(self._notice, warn_on_full_buffer=False)
        self._old = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGWINCH, self._old)
        signal.set_wakeup_fd(self._woken)
        if self._stdin is not None and self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._stdin, termios.TCSADRAIN, self._before)
        for handle in (self._resized, self._notice):
            os.close(handle)

    def wait(self, seconds: float) -> bool:
        """Whether q was pressed before ``seconds`` were over."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            handles = [self._resized, *([self._stdin] if self._stdin is not None else [])]
            ready = select.select(handles, [], [], left_s)[0]
            if self._resized in ready and signal.SIGWINCH in os.read(self._resized, 512):
                self._on_resize()
            if self._stdin in ready:
                typed = os.read(self._stdin or 0, 64)
                if not typed:
                    self._stdin = None  # its other end is closed
                elif typed[:1] in (b"q", b"Q"):
                    return True
        return False


class WatchScreen:
    """Draws what came last; made by ``screen``."""

    def __init__(self, console: Console, names: Sequence[str], interval_s: float) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._names = names  # of several boards; empty: there is one
        self._samples: dict[str, BoardSample] = {}
        self._why: dict[str, str] = {}
        self._interval_s = interval_s
        self._looks: tuple[TimedLook, ...] = ()  # of one board, for its graphs
        self.footer: Callable[[], str] = lambda: ""

    def take(self, sample: BoardSample) -> None:
        """Show one look."""
        self._samples[sample.board] = sample
        self._why.pop(sample.board, None)
        if len(self._names) < 2:
            self._looks = with_look(self._looks, sample, self._console.size.width)
        self.draw()

    def lose(self, name: str, why: str) -> None:
        """Show that a board does not answer."""
        self._why[name] = why
        self.draw()

    def draw(self) -> None:
        """Draw all of it in one write."""
        from rich.console import ConsoleDimensions
        from rich.segment import Segment, Segments
        from rich.style import Style

        # Of the terminal as it is now: COLUMNS and LINES may be those of another.
        with contextlib.suppress(OSError, ValueError):
            self._console.size = ConsoleDimensions(
                *os.get_terminal_size(self._console.file.fileno())
            )
        size = self._console.size
        lines = fitted(self._lines(size.width, size.height - 1), size.height - 1)
        lines += [[] for _ in range(size.height - 1 - len(lines))]
        lines.append([(self.footer()[: size.width], "dim")])
        if not self._console.encoding.lower().startswith("utf"):
            lines = [in_ascii(line) for line in lines]
        # Segments, as Rich searches each Text for words to wrap: twice the CPU time of a draw.
        drawn = [
            segment
            for line in lines
            for segment in (
                *(Segment(text, Style.parse(_STYLES[style])) for text, style in line),
                Segment.line(),
            )
        ]
        self._live.update(Segments(drawn[:-1]), refresh=True)

    def _lines(self, width: int, height: int) -> list[Line]:
        if len(self._names) > 1:
            return [
                line
                for name in self._names
                for line in brief_lines(
                    name, self._samples.get(name), self._why.get(name, ""), width
                )
            ]
        lines: list[Line] = [[(why, "warn")] for why in self._why.values()]
        for sample in self._samples.values():
            room = height - len(lines)
            lines += screen_lines(sample, self._looks, width, room, self._interval_s)
        return lines or [[("the first sample takes half a second …", "dim")]]

    def __enter__(self) -> WatchScreen:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)


@contextlib.contextmanager
def screen(names: Sequence[str], interval_s: float) -> Iterator[tuple[WatchScreen, Keys]]:
    """The terminal's other page with the screen on it, and its keys; both end with the block."""
    from rich.console import Console

    shown = WatchScreen(Console(highlight=False), names, interval_s)
    with Keys(shown.draw) as keys, shown:
        shown.draw()
        yield shown, keys


_HEAD_EVERY = 20  # lines of a pipe
Form = Literal["nothing", "json", "whole", "rows"]


def watch(
    board: BoardOption = None,
    host: Annotated[
        list[str] | None,
        typer.Option(help="Board to watch over ssh: user@board. Repeatable, or comma-separated."),
    ] = None,
    hosts_file: HostsFileOption = None,
    interval: Annotated[str, typer.Option(help="Time between samples: 500ms, 1s.")] = "1s",
    duration: Annotated[str | None, typer.Option(help="Stop after 30s, 10min, 8h.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one sample and exit.")] = False,
    record: Annotated[
        Path | None,
        typer.Option(help="New .csv or .jsonl file to write every sample to.", readable=False),
    ] = None,
    prometheus: Annotated[
        str | None,
        typer.Option(help="Serve Prometheus metrics: :9100 locally, 0.0.0.0:9100 to the network."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show clocks, power, temperatures, throttling and GPU users live.

    Sets nothing and needs no root; values that need root are named. A pipe gets a line per sample,
    --json an object per line. -q prints neither screen nor lines. q quits.
    """
    interval_s = parse_duration("--interval", interval)
    duration_s = None if duration is None else parse_duration("--duration", duration)
    quiet = is_quiet() and not (as_json or once)
    if quiet and record is None and prometheus is None:
        raise UsageError(
            "--quiet alone does nothing", fix="add --record FILE or --prometheus :9100"
        )
    names = [name.strip() for text in host or () for name in text.split(",")]
    looks = partial(
        api.watch,
        board,
        hosts=names,
        hosts_file=hosts_file,
        interval_s=interval_s,
        duration_s=duration_s,
        n_samples=1 if once else None,
    )
    with _sinks(record, prometheus, len(names)) as sinks:
        is_drawn = sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}
        if is_drawn and not (once or as_json or quiet):
            _show_screen(looks, names, interval_s, sinks)
            return
        if sinks.exporter is not None:
            note(f"metrics on {sinks.exporter.address}")
        form: Form = "nothing" if quiet else "json" if as_json else "whole" if once else "rows"
        _print_looks(looks, sinks, form, is_one=len(names) < 2)


class _Sinks:
    """Where looks go beside the terminal: a file, an exporter, both or neither."""

    def __init__(
        self, recorder: results.SampleFile | None, exporter: results.Exporter | None
    ) -> None:
        self.recorder, self.exporter = recorder, exporter

    def take(self, sample: BoardSample) -> None:
        """Hand one look on; raises StorageError."""
        if self.recorder is not None:
            self.recorder.take(sample)
        if self.exporter is not None:
            self.exporter.take(sample)

    def lose(self, board: str) -> None:
        """Tell that a board does not answer."""
        if self.exporter is not None:
            self.exporter.lose(board)

    def status(self) -> str:
        """What the last line of the screen says of them."""
        words = ["q: leave"]
        if self.recorder is not None:
            words.append(f"{self.recorder.path.name}: {self.recorder.n_rows} rows")
        if self.exporter is not None:
            words.append(self.exporter.address)
        return printable("   ".join(words))


@contextlib.contextmanager
def _sinks(record: Path | None, prometheus: str | None, n_hosts: int) -> Iterator[_Sinks]:
    """Opened before the first look, so that what is wrong with them is said at once."""
    with contextlib.ExitStack() as stack:
        exporter = None
        if prometheus:
            exporting = api.export_metrics(prometheus, are_hosts=n_hosts > 0)
            exporter = stack.enter_context(exporting)
        recorder = None
        if record is not None:
            recorder = stack.enter_context(api.record_samples(record, n_boards=max(1, n_hosts)))
        try:
            yield _Sinks(recorder, exporter)
        finally:
            if recorder is not None:
                note(f"{recorder.path}: {recorder.n_rows} rows")


def _show_screen(
    looks: Callable[..., Iterator[BoardSample]], names: list[str], interval_s: float, to: _Sinks
) -> None:
    """Draw until q, the end of the time, or a signal."""

    with screen(names, interval_s) as (shown, keys):
        shown.footer = to.status

        def lose(board: str, error: MansardError) -> None:
            to.lose(board)
            shown.lose(board, error.what)

        for sample in looks(wait=keys.wait, on_lost=lose):
            to.take(sample)
            shown.take(sample)


def _print_looks(
    looks: Callable[..., Iterator[BoardSample]],
    to: _Sinks,
    form: Form,
    *,
    is_one: bool,
) -> None:
    """Print each look as it comes, for a pipe or a file."""

    def lose(board: str, error: MansardError) -> None:
        to.lose(board)
        note(str(error))

    for at, sample in enumerate(looks(on_lost=lose)):
        to.take(sample)
        if form == "json":
            print_json_line("watch", sample)
        elif form == "whole":
            can_draw = (sys.stdout.encoding or "").lower().startswith("utf")
            lines = watch_lines.board_lines(sample)
            shown = "\n".join(watch_lines.plain(line, can_draw=can_draw) for line in lines)
            sys.stdout.write(f"{shown}\n" if at == 0 else f"\n{shown}\n")
        elif form == "rows":
            head = f"{watch_lines.HEAD_OF_ROWS}\n" if at % _HEAD_EVERY == 0 else ""
            sys.stdout.write(f"{head}{watch_lines.row(sample, '' if is_one else sample.board)}\n")
        sys.stdout.flush()
