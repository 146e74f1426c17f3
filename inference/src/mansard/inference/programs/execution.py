"""One run of a program, from its start until it and all its descendants have ended.

A process between Mansard and the program (``supervisor.py``) starts it, waits for its descendants,
and reports when they ended and what they used. The program's three streams are those of Mansard;
where a metric is read, its output goes through a pipe and is forwarded unchanged.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TypeAlias

import msgspec

from mansard.core.errors import MeasurementError, ProgramFailed
from mansard.core.formats.llama_bench import prints_bench_json
from mansard.core.processes.programs import is_readable_within, write_all
from mansard.inference.programs.figures import FiguresReader
from mansard.inference.programs.metric import MetricReader
from mansard.inference.programs.supervisor import STOP, WATCHED
from mansard.inference.programs.windows import VARIABLE

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_READ_BYTES = 1 << 16
_REPORT_BYTES = 1 << 16
_LOOK_S = 2.0  # between two checks whether all processes have ended
_MOST_RESTS = 64  # reads that empty a pipe: it holds 1 MiB at most, fcntl(2)
NOT_FOUND, NOT_RUNNABLE = 127, 126  # exit codes, as shells have them
BY_SIGNAL = 128  # and the signal's number: as shells have it


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a program, without the meters' readings."""

    start_s: float  # monotonic
    end_s: float
    user_s: float
    system_s: float
    peak_memory_bytes: int | None  # None: less than the process that started it
    exit_code: int
    metric: float | None
    figures: dict[str, float]  # that llama-bench printed, by test; empty of other programs
    n_ended: int  # processes that it left behind, and that had to be ended
    ended: str  # names of some of them


def cannot_run(name: str, number: int) -> ProgramFailed:
    """The error of a program that cannot be started; ``number``: as of errno(3)."""
    return ProgramFailed(
        f"cannot be run: {os.strerror(number).lower()}",
        NOT_FOUND if number == errno.ENOENT else NOT_RUNNABLE,
        where=name,
        fix="start it with its interpreter, such as sh"
        if number == errno.ENOEXEC
        else "check that it is there and that you may run it",
    )


def find_input() -> int | None:
    """The position of standard input, if it is a file: every run reads from there."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR)
    except OSError:  # a terminal, a pipe, or closed
        return None


def is_read_once() -> bool:
    """Whether standard input is a pipe or a socket, which only one run can read."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # closed
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def execute(
    command: Sequence[str],
    folder: str,
    windows: Path,
    *,
    pattern: re.Pattern[str] | None = None,
    stdout: int = 1,
    input_at: int | None = None,
) -> Execution:
    """Run ``command`` once in ``folder``; its windows go to the file ``windows``.

    ``stdout``: the descriptor that its standard output goes to. ``input_at``: see ``find_input``.
    Raises ProgramFailed where it cannot be started, MeasurementError where it succeeded but its
    output lacks the metric. An interrupt is raised after the program has ended; it is asked to
    end, and killed if it does not.
    """
    if input_at is not None:
        os.lseek(0, input_at, os.SEEK_SET)
    reading, writing = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # supervisor.py says why
    reader: _Reader | None = None
    try:
        # Started with the signals blocked as well: Ctrl-C reaches the whole group.
        reader = _reader(pattern, command)
        with open(reading, "rb") as report:  # noqa: PTH123
            try:
                supervisor = subprocess.Popen(
                    # -I -S: nothing of the user's Python is loaded: this process stays small.
                    [
                        *(sys.executable, "-I", "-S", str(_SUPERVISOR), str(writing)),
                        *(",".join(str(int(number)) for number in mask), *command),
                    ],
                    cwd=folder,
                    env={**os.environ, VARIABLE: str(windows)},
                    pass_fds=(writing,),
                    stdout=stdout if reader is None else subprocess.PIPE,
                    stderr=None if reader is None else subprocess.PIPE,
                    bufsize=0,
                )
            finally:
                os.close(writing)
            with _passing(supervisor, stdout, reader):
                _wait(supervisor, mask, report.fileno())
            said = report.read(_REPORT_BYTES).decode("utf-8", "replace").split()
        return _read_report(said, command[0], reader)
    finally:
        if reader is not None:
            reader.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_Reader: TypeAlias = "MetricReader | FiguresReader"


def _reader(pattern: re.Pattern[str] | None, command: Sequence[str]) -> _Reader | None:
    """What reads the program's output; None: nothing does, and its streams are Mansard's."""
    if pattern is not None:
        return MetricReader(pattern)
    return FiguresReader() if prints_bench_json(command) else None


def _wait(
    supervisor: subprocess.Popen[bytes], mask: set[int | signal.Signals], report: int
) -> None:
    """Wait for the supervisor's report; an interrupt ends the program, then is raised."""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        is_readable_within(report)
        supervisor.wait()
    except BaseException:
        supervisor.send_signal(STOP)
        while supervisor.returncode is None:  # it ends in seconds, whatever the program does
            with contextlib.suppress(KeyboardInterrupt):
                supervisor.wait()
        raise


@contextlib.contextmanager
def _passing(
    supervisor: subprocess.Popen[bytes], stdout: int, reader: _Reader | None
) -> Iterator[None]:
    """Forward the pipes until every process that writes to them has ended."""
    if reader is None or supervisor.stdout is None or supervisor.stderr is None:
        yield
        return
    pipes = ((supervisor.stdout, stdout), (supervisor.stderr, 2))
    ending = threading.Event()
    thread = threading.Thread(
        target=_pass_on, args=(pipes, reader, ending), name="output", daemon=True
    )
    with supervisor.stdout, supervisor.stderr:
        thread.start()
        try:
            yield
        except BaseException:
            reader.close()  # the rest is forwarded, but not searched
            raise
        finally:
            ending.set()
            thread.join()


def _pass_on(
    pipes: Sequence[tuple[IO[bytes], int]], reader: _Reader, ending: threading.Event
) -> None:
    """Copy each pipe to its descriptor as data arrives, and feed the metric's reader."""
    with selectors.DefaultSelector() as selector:
        for pipe, target in pipes:
            selector.register(pipe, selectors.EVENT_READ, (pipe, target))
        n_rests = 0
        while selector.get_map():
            is_rest = ending.is_set()
            ready = selector.select(0 if is_rest else _LOOK_S)
            n_rests += is_rest
            if is_rest and (not ready or n_rests > _MOST_RESTS):
                return  # a process that cannot be ended holds the pipe
            for key, _ in ready:
                pipe, target = key.data
                data = os.read(key.fd, _READ_BYTES)
                reader.feed(key.fd, data)
                if not data or not _is_written(target, data):
                    selector.unregister(pipe)
                    # So that the program gets SIGPIPE or EPIPE when the reader is gone.
                    pipe.close()


def _is_written(target: int, data: bytes) -> bool:
    """Whether all of ``data`` could be written."""
    try:
        write_all(target, data)
    except OSError:
        return False
    return True


def _read_report(said: Sequence[str], name: str, reader: _Reader | None) -> Execution:
    if said[:1] == ["failed"]:
        raise cannot_run(name, int(said[1]))
    if said[:1] != ["ran"] or len(said) < 9:
        raise MeasurementError(
            "the supervisor of the program was killed",
            where=name,
            fix="the program may still run: end it, and measure again",
        )
    start_ns, end_ns, user_us, system_us, peak_kib, own_kib, status, n_left = map(int, said[1:9])
    code = os.waitstatus_to_exitcode(status)
    exit_code = code if code >= 0 else BY_SIGNAL - code
    return Execution(
        start_s=start_ns / 1e9,
        end_s=end_ns / 1e9,
        user_s=user_us / 1e6,
        system_s=system_us / 1e6,
        peak_memory_bytes=peak_kib * 1024 if peak_kib > own_kib else None,
        exit_code=exit_code,
        metric=reader.value() if isinstance(reader, MetricReader) and exit_code == 0 else None,
        figures=reader.figures() if isinstance(reader, FiguresReader) else {},
        n_ended=n_left,
        ended=", ".join(said[9:]),
    )
