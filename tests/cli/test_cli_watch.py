"""``mansard board watch``: its lines, its JSON, its file, and the screen of a real terminal."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.cli.board.watch_lines import board_lines, brief_lines, fitted, in_ascii, plain
from mansard.device.watching import BoardWatch
from mansard.simulator import create_board
from mansard.simulator.faults import set_load
from tests.cli.in_process import mansard

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")
_PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_board("orin-nano-super", tmp_path_factory.mktemp("board"))


def test_once_shows_all_of_a_board(board: Path) -> None:
    done = mansard("watch", "--board", board, "--once")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "(simulated)" in lines[0]
    assert re.search(r"25W  \d\d:\d\d:\d\d  for 0:00:00$", lines[0])
    for expected in (
        r"CPU 0-5 .*– % +730 of 1344 MHz",  # nothing moves: its share is not known
        r"GPU .* 0 %   306 of 918 MHz",
        r"memory .* 1.6 of 8.0 GB",
        r"°C +cpu 35.0  soc2 35.0",
        r"VDD_IN +4.17 W",
        r"throttled  no",
        r"limit +mode 25W allows CPU 0-3 1344 of 1728 MHz",
        r"GPU users  nobody",
    ):
        assert re.search(expected, done.stdout), (expected, done.stdout)


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_screen_fits(name: str, width: int, tmp_path: Path) -> None:
    root = create_board(name, tmp_path)
    for cooler in root.glob("sys/class/thermal/cooling_device[123]/cur_state"):
        cooler.write_text("1\n")
    watch = BoardWatch(root)
    watch.read()
    sample = watch.read()
    lines = board_lines(sample, width)
    assert max(len(plain(line)) for line in lines) <= width
    if width >= 80:
        assert len(lines) <= 23  # the last line is for the keys
    assert len(fitted(lines, 10)) == 10
    assert "more lines" in plain(fitted(lines, 10)[-1])
    brief = brief_lines("orin-1", sample, "", width)
    assert max(len(plain(line)) for line in brief) <= width
    assert "too hot" in plain(brief[1])


def test_a_terminal_without_unicode_gets_ascii(board: Path) -> None:
    watch = BoardWatch(board)
    watch.read()
    for line in board_lines(watch.read()):
        text = plain(line, can_draw=False)
        assert text.isascii()
        assert text == "".join(part for part, _ in in_ascii(line)).rstrip()
    assert plain([("██▌··", "good")], can_draw=False) == "##..."


def test_a_pipe_gets_a_line_for_each_look_and_the_file_a_row(board: Path, tmp_path: Path) -> None:
    table = tmp_path / "looks.csv"
    done = mansard(
        *(
            "watch",
            "--board",
            board,
            "--interval",
            "100ms",
            "--duration",
            "300ms",
            "--record",
            table,
        )
    )
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.split()[:3] == ["time", "CPU", "%"]
    assert 1 <= len(lines) <= 3  # at 0.1, 0.2 and 0.3 s; what comes late is left out
    assert all(line.endswith("35.0   4.17  -") for line in lines)
    assert done.stderr.endswith(f"{table}: {len(lines)} rows\n")
    assert len(table.read_text().splitlines()) == len(lines) + 1


def test_json_is_an_object_on_a_line(board: Path) -> None:
    done = mansard(
        "watch", "--board", board, "--interval", "100ms", "--duration", "200ms", "--json"
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(each["schema"], each["version"]) for each in found} == {("mansard/watch", 1)}
    assert found[0]["power_w"] == 4.1664
    assert found[0]["cpus"][0]["busy_share"] is None
    assert found[0]["cpus"][0]["unknown"] == {"busy_share": "it needs two samples"}


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--interval", "1ms"], "an interval of 0.001 s is out of range; give 0.1 s to 3600 s"),
        (
            ["--interval", "soon"],
            "--interval 'soon' is not a duration; write 100ms, 2s, 5min or 1h",
        ),
        (["--duration", "0"], "--duration '0' is not a duration; write 100ms, 2s, 5min or 1h"),
        (["--record", "looks.txt"], "--record 'looks.txt' is neither a table nor records; "),
        (["--prometheus", "here"], "--prometheus 'here' is not an address; write :9100"),
        (["--quiet"], "--quiet alone does nothing; add --record FILE or --prometheus :9100"),
        (["--host", "a b"], "'a b' does not name a board; write user@board"),
        (["--host", "unix:///run/d.sock", "--once"], "watching reads over ssh; give user@board"),
        (["--board", "nowhere"], "'nowhere' is not a simulated board"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], line: str, tmp_path: Path) -> None:
    done = mansard("watch", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert line in done.stderr
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


class Terminal:
    """``board watch`` on a pseudo terminal; ``shown``: all that it has written."""

    def __init__(self, *words: str, height: int = 24, width: int = 80, **setting: str) -> None:
        self.ours, self.theirs = pty.openpty()
        self.resize(height, width)
        self.before = termios.tcgetattr(self.theirs)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mansard.cli", "watch", "--interval", "100ms", *words],
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "70", "LINES": "30", **setting},  # of another terminal
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - its terminal
        )

    def resize(self, height: int, width: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def await_text(self, text: str) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while text not in self.shown:
            assert time.monotonic() < end_s, self.shown[-2000:]
            self._read()

    def _read(self) -> None:
        if select.select([self.ours], [], [], 0.1)[0]:
            self.shown += self._decoder.decode(os.read(self.ours, 1 << 16))

    def last_screen(self) -> list[str]:
        """The lines that it wrote last from the top left corner, without styles."""
        text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.shown.split("\x1b[H")[-1])
        return [line.rstrip() for line in text.replace("\r", "").split("\n")]

    def await_screen(self, pattern: str, n_lines: int) -> list[str]:
        """The last screen, once it has ``n_lines`` and one of them matches."""
        end_s = time.monotonic() + _PATIENCE_S
        while True:
            lines = self.last_screen()
            if len(lines) == n_lines and any(re.search(pattern, line) for line in lines):
                return lines
            assert time.monotonic() < end_s, self.shown[-2000:]
            self._read()

    def end(self) -> tuple[int, str]:
        """Exit code and stderr; the terminal is as it was."""
        try:
            end_s = time.monotonic() + _PATIENCE_S
            while self.process.poll() is None or select.select([self.ours], [], [], 0)[0]:
                assert time.monotonic() < end_s
                self._read()  # else it could not write on
            _, said = self.process.communicate()
            assert termios.tcgetattr(self.theirs) == self.before
            # Rich's other page, and the cursor that it hides: both are undone, in this order.
            assert self.shown.rindex("\x1b[?1049l") > self.shown.rindex("\x1b[?1049h")
            assert self.shown.rindex("\x1b[?25h") > self.shown.rindex("\x1b[?25l")
        finally:
            os.close(self.ours)
            os.close(self.theirs)
        return self.process.returncode, said


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    started: list[Terminal] = []
    yield started
    for terminal in started:
        terminal.process.kill()
        terminal.process.wait()


def test_q_leaves_a_screen_that_follows_its_window(
    board: Path, tmp_path: Path, terminals: list[Terminal]
) -> None:
    terminal = Terminal("--board", str(board), "--record", str(tmp_path / "looks.csv"))
    terminals.append(terminal)
    terminal.await_text("looks.csv: 2 rows")
    assert "VDD_IN" in terminal.shown
    terminal.resize(8, 60)
    terminal.await_text("more lines: enlarge the window")
    os.write(terminal.ours, b"q")
    code, said = terminal.end()
    assert code == 0
    assert re.search(r"looks\.csv: \d+ rows", said)


def test_a_large_window_has_graphs_and_a_resize_draws_them_again(
    running_agx_orin: Path, terminals: list[Terminal]
) -> None:
    set_load(running_agx_orin, cpu=0.5, gpu=0.9, memory=0.4)
    # No look follows the first one: a screen of another size is drawn for the signal.
    words = ("--board", str(running_agx_orin), "--interval", "1h")
    terminal = Terminal(*words, height=40, width=120)
    terminals.append(terminal)
    large = terminal.await_screen("q: leave", 40)
    large = terminal.await_screen("GPU load", 40)
    assert max(map(len, large)) <= 120
    gpu = next(at for at, line in enumerate(large) if line.startswith("GPU load"))
    assert re.match(r"GPU load 9\d %  min 9\d max 9\d +GPU clock \d+ MHz  min", large[gpu])
    assert re.match(r" 100 .* [▁▂▃▄▅▆▇█] +612 ", large[gpu + 1])
    assert re.match(r"   0 .* █ +0 .* █$", large[gpu + 3])
    assert re.match(r" +53 h ago .* now +53 h ago .* now$", large[38])
    for size in ((24, 80), (30, 100)):
        terminal.resize(*size)
        lines = terminal.await_screen("q: leave", size[0])
        assert max(map(len, lines)) <= size[1]
        assert any(line.startswith("GPU load") for line in lines) == (size != (24, 80))
    os.write(terminal.ours, b"q")
    assert terminal.end()[0] == 0


def test_graphs_in_ascii(board: Path, terminals: list[Terminal]) -> None:
    terminal = Terminal("--board", str(board), height=40, width=120, PYTHONIOENCODING="ascii")
    terminals.append(terminal)
    lines = terminal.await_screen("hottest sensor", 40)
    assert all(line.isascii() for line in lines)
    # 306 of 918 MHz in four rows: 32 / 3 of 32 levels, which is 11: a whole row, and 3 above it.
    clock = next(at for at, line in enumerate(lines) if "GPU clock 306 MHz" in line)
    assert lines[clock + 1].split() == ["100", "918"]
    assert [line[-1] for line in lines[clock + 3 : clock + 5]] == ["3", "#"]
    assert lines[clock + 5].startswith("total power")
    os.write(terminal.ours, b"q")
    assert terminal.end()[0] == 0


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_leaves_the_terminal_as_it_was(
    number: signal.Signals, board: Path, terminals: list[Terminal]
) -> None:
    terminal = Terminal("--board", str(board))
    terminals.append(terminal)
    terminal.await_text("q: leave")
    terminal.await_text("VDD_IN")
    terminal.process.send_signal(number)
    code, said = terminal.end()
    assert code == 130
    assert said == "mansard: ended; recorded rows are complete\n"
