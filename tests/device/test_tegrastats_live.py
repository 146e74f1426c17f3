"""A running tegrastats: its lines arrive, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.device.meters.tegrastats import live
from tests.waiting import awaited

LINE = "RAM 1/2MB CPU [1%@100] VDD_IN 5000mW/1mW"


def board(root: Path, script: str) -> Path:
    """A board whose tegrastats is ``script``, which finds where to write its process id."""
    tool = root / "usr/bin/tegrastats"
    tool.parent.mkdir(parents=True)
    head = f"#!{sys.executable}\nimport os, sys, time, signal\n"
    note = f"open({str(root / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    note += f"open({str(root / 'arguments')!r}, 'w').write(' '.join(sys.argv[1:]))\n"
    tool.write_text(head + note + script)
    tool.chmod(0o755)
    return root


STEADY = f"""
while True:
    print({LINE!r}, flush=True)
    time.sleep(0.01)
"""


def is_gone(root: Path) -> bool:
    try:
        os.kill(int((root / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def test_lines_arrive_with_rising_times_and_the_tool_ends(tmp_path: Path) -> None:
    root = board(tmp_path, STEADY)
    with live(root, 0.1) as samples:
        found = [next(samples) for _ in range(3)]
        assert not is_gone(root)
    assert is_gone(root)
    assert [sample.rails[0].power_w for _, sample in found] == [5.0] * 3
    times_s = [time_s for time_s, _ in found]
    assert times_s == sorted(times_s)
    assert (root / "arguments").read_text() == "--interval 100"


def test_a_duration_ends_it(tmp_path: Path) -> None:
    root = board(tmp_path, STEADY)
    with live(root, 0.01, duration_s=1.0) as samples:
        assert len(list(samples)) >= 1
    assert is_gone(root)


def test_a_duration_begins_with_the_first_line(tmp_path: Path) -> None:
    root = board(tmp_path, f"time.sleep(1)\n{STEADY}")
    with live(root, 0.01, duration_s=0.2) as samples:
        times_s = [time_s for time_s, _ in samples]
    assert times_s
    assert is_gone(root)


def test_an_error_in_the_block_ends_it(tmp_path: Path) -> None:
    root = board(tmp_path, STEADY)
    with pytest.raises(ZeroDivisionError), live(root, 0.1) as samples:
        _ = next(samples)[0] / 0
    assert is_gone(root)


def test_a_tool_that_will_not_end_is_killed(tmp_path: Path) -> None:
    root = board(tmp_path, f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{STEADY}")
    with live(root, 0.1) as samples:
        next(samples)
    assert is_gone(root)


def test_a_line_that_comes_in_two_halves(tmp_path: Path) -> None:
    script = f"""
sys.stdout.write({LINE[:20]!r}); sys.stdout.flush(); time.sleep(0.05)
sys.stdout.write({LINE[20:]!r} + "\\n"); sys.stdout.flush(); time.sleep(60)
"""
    with live(board(tmp_path, script), 0.1) as samples:
        assert next(samples)[1].rails[0].power_w == 5.0


def test_no_tegrastats(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="has no tegrastats; give a recorded log"):
        live(tmp_path, 0.1).__enter__()


def test_one_that_ends_by_itself_says_its_last_words(tmp_path: Path) -> None:
    root = board(tmp_path, "print('need root', file=sys.stderr); sys.exit(3)")
    with (
        pytest.raises(DeviceError, match=r"ended by itself; it says 'need root'"),
        live(root, 0.1) as samples,
    ):
        next(samples)


def test_one_that_cannot_be_run(tmp_path: Path) -> None:
    root = board(tmp_path, "")
    (root / "usr/bin/tegrastats").write_text("#!/nowhere/python\n")
    with pytest.raises(DeviceError, match="cannot be run"):
        live(root, 0.1).__enter__()


def test_one_that_is_silent_is_given_up(tmp_path: Path) -> None:
    root = board(tmp_path, "print('no line', flush=True); time.sleep(600)")
    ticks = iter(range(0, 10_000, 2))  # each look at the clock finds two seconds gone
    with (
        pytest.raises(DeviceError, match=r"prints no line of tegrastats for 5\.1 s"),
        live(root, 0.1, clock=lambda: next(ticks)) as samples,
    ):
        next(samples)
    assert is_gone(root)


def test_where_we_are_killed_it_dies_of_its_pipe(tmp_path: Path) -> None:
    root = board(tmp_path, STEADY)
    code = f"""
from pathlib import Path
from mansard.device.meters.tegrastats import live
with live(Path({str(root)!r}), 0.1) as samples:
    next(samples)
    print("ready", flush=True)
    for _ in samples:
        pass
"""
    ours = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert ours.stdout is not None
    assert ours.stdout.readline() == b"ready\n"
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    ours.stdout.close()
    assert awaited(lambda: is_gone(root))
