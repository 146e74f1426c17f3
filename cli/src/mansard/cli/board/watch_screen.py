"""The live screen of ``mansard watch``: drawn by Rich, left with q, whole again at every end."""

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
from types import FrameType
from typing import TYPE_CHECKING, Any

from mansard.cli.board.watch_lines import Line, board_lines, brief_lines, fitted, in_ascii

if TYPE_CHECKING:
    from rich.console import Console

    from mansard.core.records import BoardSample

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
        self._old = signal.signal(signal.SIGWINCH, self._wake)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGWINCH, self._old)
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
            if self._resized in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._resized, 512)
                self._on_resize()
            if self._stdin in ready:
                typed = os.read(self._stdin or 0, 64)
                if not typed:
                    self._stdin = None  # its other end is closed
                elif typed[:1] in (b"q", b"Q"):
                    return True
        return False

    def _wake(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        with contextlib.suppress(BlockingIOError):
            os.write(self._notice, b"\0")


class WatchScreen:
    """Draws what came last; made by ``screen``."""

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._names = names  # of several boards; empty: there is one
        self._samples: dict[str, BoardSample] = {}
        self._why: dict[str, str] = {}
        self.footer: Callable[[], str] = lambda: ""

    def take(self, sample: BoardSample) -> None:
        """Show one look."""
        self._samples[sample.board] = sample
        self._why.pop(sample.board, None)
        self.draw()

    def lose(self, name: str, why: str) -> None:
        """Show that a board does not answer."""
        self._why[name] = why
        self.draw()

    def draw(self) -> None:
        """Draw all of it in one write."""
        from rich.console import ConsoleDimensions, Group
        from rich.text import Text

        # Of the terminal as it is now: COLUMNS and LINES may be those of another.
        with contextlib.suppress(OSError, ValueError):
            self._console.size = ConsoleDimensions(
                *os.get_terminal_size(self._console.file.fileno())
            )
        size = self._console.size
        lines = fitted(self._lines(size.width), size.height - 1)
        lines += [[] for _ in range(size.height - 1 - len(lines))]
        lines.append([(self.footer()[: size.width], "dim")])
        if not self._console.encoding.lower().startswith("utf"):
            lines = [in_ascii(line) for line in lines]
        drawn = [
            Text.assemble(*((text, _STYLES[style]) for text, style in line), no_wrap=True)
            for line in lines
        ]
        self._live.update(Group(*drawn), refresh=True)

    def _lines(self, width: int) -> list[Line]:
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
            lines += board_lines(sample, width)
        return lines or [[("the first look takes half a second …", "dim")]]

    def __enter__(self) -> WatchScreen:
        self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._live.__exit__(*error)


@contextlib.contextmanager
def screen(names: Sequence[str] = ()) -> Iterator[tuple[WatchScreen, Keys]]:
    """The terminal's other page with the screen on it, and its keys; both end with the block."""
    from rich.console import Console

    shown = WatchScreen(Console(highlight=False), names)
    with Keys(shown.draw) as keys, shown:
        shown.draw()
        yield shown, keys
