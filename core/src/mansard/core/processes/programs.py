"""Programs that we start: each has a limit of time and of what it prints, and none is left behind.

A program gets a session of its own, so that a Ctrl-C for us does not stop it half way, and so
that its children can be ended with it: a signal to its process group reaches all of them. Sources:
setsid(2), kill(2), waitid(2).

Signals that end a command of ours do so cleanly and resumably.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO

import msgspec

from mansard.core.errors import MansardError

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST_WAIT_S = 0.5


def turn_signals_into_interrupts() -> None:
    """Make a polite request to stop raise KeyboardInterrupt, so that clean-up runs.

    Python's own reaction to both is to die on the spot, without ``finally``.
    """
    for number in _ENDING[1:]:
        # A command started with nohup has SIGHUP ignored and must keep it so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def let_interrupts_end_waits() -> None:
    """Let the signals that end a command interrupt system calls, also under a library's handler.

    Call it before a wait: a library that handles SIGINT itself, as polars does once it is imported,
    makes the kernel restart the call (SA_RESTART, signal(7)), and Python does not react to the
    signal before the call returns.
    """
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.siginterrupt(number, True)


def write_all(handle: int, data: bytes) -> None:
    """Write ``data`` to a descriptor, also to one that does not block; raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(handle, view) :]
        except BlockingIOError:  # another program has set the terminal so
            select.select([], [handle], [])


def is_readable_within(handle: int, seconds: float = math.inf) -> bool:
    """Whether a descriptor has data to read, or its end, within the timeout.

    A signal that comes just before a wait begins does not end it, so no wait is long.
    """
    end_s = time.monotonic() + seconds
    while True:
        let_interrupts_end_waits()
        left_s = end_s - time.monotonic()
        if select.select([handle], [], [], max(0.0, min(left_s, _LONGEST_WAIT_S)))[0]:
            return True
        if left_s <= 0:
            return False


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


# What an instruction of the process itself causes: the same input causes it again.
_FAULTS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
_ENDED_FROM_OUTSIDE = re.compile(r"\bwas killed, as |\bended by (SIG|signal [0-9])")


def how_it_ended(code: int) -> str:
    """How a process ended, from its exit code or, below 0, the number of the signal."""
    if code >= 0:
        return f"ended with code {code}"
    if -code == signal.SIGKILL:
        return "was killed, as it is where the memory runs out"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # one without a name
        return f"was ended by signal {-code}"
    return f"crashed ({name})" if name in _FAULTS else f"was ended by {name}"


def names_outer_signal(text: str) -> bool:
    """Whether a text of ``how_it_ended`` is of a process that was ended from outside.

    A process that its own fault ended (SIGSEGV) is not: the same input ends the next one too.
    """
    return _ENDED_FROM_OUTSIDE.search(text) is not None


MAX_OUTPUT_BYTES = 1 << 20  # the longest dump of nvpmodel has 0.1 MB
MAX_ANSWER_BYTES = 4096  # a pipe holds this much without a reader: pipe(7), PIPE_BUF
_READ_BYTES = 1 << 16
_POLL_S = 0.05  # between two looks at whether a program has ended
_SOON_S = 0.002  # the same where it must end at any moment
_REST_S = 0.5  # for the last output of a program that has ended while its child goes on
_DEAD_S = 2.0  # after which a program that was killed is left to the kernel

Command = Sequence[str | os.PathLike[str]]


class Finished(msgspec.Struct, frozen=True):
    """How a program ended and what it printed; merged streams are all ``output``."""

    exit_code: int
    output: bytes = b""
    complaints: bytes = b""

    @property
    def text(self) -> str:
        """The output, with a mark for each byte that is not text."""
        return self.output.decode("utf-8", "replace")


def run_program(
    command: Command,
    *,
    timeout_s: float,
    max_bytes: int = MAX_OUTPUT_BYTES,
    answer: bytes = b"",
    is_merged: bool = False,
    error: type[MansardError] = MansardError,
) -> Finished:
    """Run a program to its end, ``answer`` on its standard input; raises ``error``.

    At ``timeout_s``, or when it has printed more than ``max_bytes``, it and its children are
    killed. ``is_merged``: standard error is read with standard output, in order.
    """
    process = start_program(
        command,
        stdin=subprocess.PIPE if answer else subprocess.DEVNULL,
        stderr=subprocess.STDOUT if is_merged else subprocess.PIPE,
        error=error,
    )
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # it has ended, or closed its input
            os.write(process.stdin.fileno(), answer[:MAX_ANSWER_BYTES])
        process.stdin.close()
    return finish_program(process, timeout_s=timeout_s, max_bytes=max_bytes, error=error)


def start_program(
    command: Command,
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
    error: type[MansardError] = MansardError,
) -> subprocess.Popen[bytes]:
    """A program in a session of its own; raises ``error`` where it cannot be started.

    What it prints is read by ``finish_program``, or line by line with a limit for each line; then
    ``end_program`` ends it.
    """
    words = [os.fspath(word) for word in command]
    try:
        return subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as failure:  # ValueError: a name with a zero byte
        reason = getattr(failure, "strerror", None) or str(failure)
        raise error(
            f"cannot be run: {reason.lower()}",
            where=words[0],
            fix="check that it is there and that you may run it",
        ) from failure


def finish_program(
    process: subprocess.Popen[bytes],
    *,
    timeout_s: float,
    max_bytes: int = MAX_OUTPUT_BYTES,
    error: type[MansardError] = MansardError,
) -> Finished:
    """What a started program prints until its end; raises ``error`` at a limit.

    Children that go on after it with its output open are not waited for, but killed.
    """
    streams = {
        pipe.fileno(): bytearray() for pipe in (process.stdout, process.stderr) if pipe is not None
    }
    is_whole = False
    try:
        is_whole = _read_all(process, streams, timeout_s, max_bytes, error)
    finally:
        _leave(process, is_killed=not is_whole)
    texts = [bytes(stream) for stream in streams.values()]
    return Finished(process.returncode, *texts)


def end_program(process: subprocess.Popen[bytes], *, patience_s: float) -> None:
    """End a program and its children: it is asked to, then they are killed. Never raises."""
    try:
        _signal(process, signal.SIGTERM)
        deadline_s = time.monotonic() + patience_s
        while not _has_ended(process) and time.monotonic() < deadline_s:
            time.sleep(_SOON_S)
    finally:  # also when a second Ctrl-C comes meanwhile
        _leave(process, is_killed=True)


def _leave(process: subprocess.Popen[bytes], *, is_killed: bool) -> None:
    if is_killed:
        _signal(process, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DEAD_S)


def _read_all(
    process: subprocess.Popen[bytes],
    streams: dict[int, bytearray],
    timeout_s: float,
    max_bytes: int,
    error: type[MansardError],
) -> bool:
    """Fill ``streams`` until the program ends; returns whether all streams ended with it."""
    name = process.args[0] if isinstance(process.args, list) else str(process.args)
    deadline_s, is_late = time.monotonic() + timeout_s, False
    with selectors.DefaultSelector() as selector:
        for handle in streams:
            selector.register(handle, selectors.EVENT_READ)
        while (is_running := not _has_ended(process)) or selector.get_map():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 and not is_running:
                return False
            if left_s <= 0:
                raise error(
                    f"did not answer within {timeout_s:.3g} s and was ended",
                    where=name,
                    fix="run it by hand to see what it waits for",
                )
            if not is_running and not is_late:
                deadline_s, is_late = min(deadline_s, time.monotonic() + _REST_S), True
            for key, _ in selector.select(min(_POLL_S if selector.get_map() else _SOON_S, left_s)):
                more = os.read(key.fd, _READ_BYTES)
                if not more:
                    selector.unregister(key.fd)
                streams[key.fd] += more
                if sum(map(len, streams.values())) > max_bytes:
                    raise error(
                        f"printed more than {max_bytes:,} bytes and was ended",
                        where=name,
                        fix="run it by hand to see what it prints",
                    )
    return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; its number stays taken, so that its group can still be signalled."""
    if process.returncode is not None:
        return True
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, process.pid, flags) is not None
    except ChildProcessError:  # another call has waited for it
        return True


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, or runs as root
        os.killpg(process.pid, number)
