"""Programs that hang, flood, ignore signals or leave children: each ends at its limits."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

import pytest

from mansard.core.errors import ContainerError, DeviceError
from mansard.core.processes.programs import end_program, run_program, start_program
from tests.waiting import awaited

FLOOD = "import os\nwhile True: os.write(1, b'x' * 65536)"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def python(text: str) -> list[str]:
    return [sys.executable, "-ISc", text]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_both_streams_and_the_exit_code_come_back() -> None:
    text = "import sys; print(input()); sys.stderr.write('oh'); sys.exit(3)"
    done = run_program(python(text), timeout_s=60, answer=b"no\n")
    assert (done.exit_code, done.output, done.complaints) == (3, b"no\n", b"oh")


def test_merged_streams_keep_their_order() -> None:
    text = "import os; [os.write(1 + n % 2, b'%d' % n) for n in range(6)]"
    assert run_program(python(text), timeout_s=60, is_merged=True).output == b"012345"


@pytest.mark.parametrize("stream", [1, 2])
def test_a_flood_ends_at_the_limit_and_fills_no_memory(stream: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DeviceError, match="printed more than 1,048,576 bytes and was ended"):
        run_program(
            python(FLOOD.replace("write(1", f"write({stream}")), timeout_s=60, error=DeviceError
        )
    # Its limit and a block of what is read at once; kilobytes.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_so_much_is_no_flood() -> None:
    done = run_program(python("print('x' * 999)"), timeout_s=60, max_bytes=1000)
    assert len(done.output) == 1000


@pytest.mark.parametrize("deaf", ["", "trap '' TERM; "])
def test_a_hung_program_ends_at_its_limit_with_its_children(tmp_path: Path, deaf: str) -> None:
    # A shell starts at once: on a busy machine two of Python take longer than the limit.
    text = f"{deaf}sleep 600 & echo $! > {tmp_path}/pid; sleep 600"
    with pytest.raises(ContainerError, match="did not answer within 3 s and was ended"):
        run_program(["sh", "-c", text], timeout_s=3, error=ContainerError)
    pid = int((tmp_path / "pid").read_text())
    assert awaited(lambda: not is_running(pid))


def test_a_child_that_holds_the_output_open_is_not_waited_for(tmp_path: Path) -> None:
    text = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-ISc', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
    )
    done = run_program(python(text), timeout_s=300)  # an hour, were the child waited for
    assert done.exit_code == 0
    assert awaited(lambda: not is_running(int(done.output)))


def test_a_child_with_outputs_of_its_own_is_left_alone() -> None:
    text = (
        "import subprocess, sys\n"
        "null = subprocess.DEVNULL\n"
        "child = subprocess.Popen([sys.executable, '-ISc', 'import time; time.sleep(600)'],\n"
        "    stdin=null, stdout=null, stderr=null)\n"
        "print(child.pid)\n"
    )
    pid = int(run_program(python(text), timeout_s=60).output)
    assert is_running(pid)
    os.kill(pid, 9)


@pytest.mark.parametrize("name", ["/nowhere/tool", "bad\0name", "/"])
def test_what_cannot_be_started_is_one_line(name: str) -> None:
    with pytest.raises(DeviceError, match=r"cannot be run: .*; check that it is there"):
        run_program([name], timeout_s=60, error=DeviceError)


def test_a_stream_ends_when_asked_to_and_a_deaf_one_is_killed() -> None:
    for text in ("import time; time.sleep(600)", f"{DEAF}print(1, flush=True); time.sleep(600)"):
        process = start_program(python(text))
        if text.startswith(DEAF) and process.stdout is not None:
            assert process.stdout.readline() == b"1\n"
        end_program(process, patience_s=0.2 if text.startswith(DEAF) else 60)
        assert process.returncode in {-15, -9}
        assert not is_running(process.pid)
