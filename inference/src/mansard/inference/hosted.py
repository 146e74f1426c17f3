"""``python -m mansard.inference.hosted``: measures a program or a server of the host it runs on.

The caller is elsewhere. Its first line says what to measure, with the secrets that plans leave out.
With ``--describe`` the answer is a description: the trials, with the hashes of files of this host.
Without it a job follows, and the answer is events, and between them what the program prints. The
program's standard input is empty. When the caller or the link to it ends, the measurement ends too,
and the program with all that it started. Exit codes: 0 done, 1 failed, 2 wrong usage, 130
interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeAlias

import msgspec

from mansard.core.errors import MansardError, SchemaError, UsageError, reported
from mansard.core.processes.line_channel import (
    DECODE_ERRORS,
    HEARTBEAT,
    HEARTBEAT_S,
    LineReader,
    claim_stdout,
    encode_line,
    to_wire,
)
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.device.meters.finding import find_meters
from mansard.device.system import SYSTEM_ROOT
from mansard.inference.programs.dependencies import check_dependencies
from mansard.inference.programs.plan import ProgramTrial, make_program_trial
from mansard.inference.programs.trial import Passing, program_kind
from mansard.inference.servers.connection import KEY_VARIABLE
from mansard.inference.servers.opening import identified
from mansard.inference.servers.plan import GenerationTrial, Lengths, Serving, plan_trials
from mansard.inference.servers.trial import generation_kind
from mansard.measuring.answering import answer_job
from mansard.measuring.events import Aborted, Event, Measurer, Note, OutputPiece, Passed, Stream
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer

_READ_BYTES = 1 << 16
_DRAIN_S = 5.0  # for output of processes that the program left and nobody could end


class HostedProgram(msgspec.Struct, frozen=True, kw_only=True, tag="program"):
    """A program to be measured; ``folder``: where it runs, None: the user's home."""

    command: tuple[str, ...]
    name: str | None = None
    metric: str | None = None
    variables: tuple[str, ...] = ()
    depends: tuple[str, ...] = ()  # paths of this host
    folder: str | None = None


class HostedServer(msgspec.Struct, frozen=True, kw_only=True, tag="server"):
    """A server to be measured, with the caller's key for it; ``folder``: where it is started."""

    serving: Serving
    lengths: Lengths
    folder: str | None = None
    key: str | None = None


Hosted: TypeAlias = HostedProgram | HostedServer


class DescribedProgram(msgspec.Struct, frozen=True, tag="program"):
    """What a program is on this host; ``may_set``: whether this user may set the board's modes."""

    trial: ProgramTrial
    may_set: bool


class DescribedServer(msgspec.Struct, frozen=True, tag="server"):
    """What a server is on this host; ``serving`` as it is to be measured."""

    trials: tuple[GenerationTrial, ...]
    serving: Serving
    may_set: bool


Described: TypeAlias = DescribedProgram | DescribedServer | Aborted


def main(arguments: list[str] | None = None) -> int:
    """Answer the caller on standard input; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mansard.inference.hosted", description=__doc__)
    parser.add_argument(
        "--board", type=Path, default=SYSTEM_ROOT, help="root folder of the board's /sys"
    )
    parser.add_argument("--describe", action="store_true", help="describe what it is, and end")
    parser.add_argument(
        "--heartbeat", type=float, metavar="S", help="end when stdin is silent for S seconds"
    )
    options = parser.parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        lines = LineReader(_claim_stdin(), options.heartbeat)
        caller = _Caller(claim_stdout())
        return _answer(lines, caller, options.board, is_description=options.describe)
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


def _answer(lines: LineReader, caller: _Caller, root: Path, *, is_description: bool) -> int:
    try:
        hosted = _read(lines)
        _enter(hosted.folder)
        if isinstance(hosted, HostedServer) and hosted.key is not None:
            os.environ[KEY_VARIABLE] = hosted.key
        if is_description:
            caller.send(_describe(hosted, root))
            return 0
        threading.Thread(target=caller.beat, daemon=True).start()
        output = _Output(caller.pass_on) if isinstance(hosted, HostedProgram) else None
    except MansardError as error:
        caller.send(Aborted(to_wire(error)))
        return error.exit_code

    def send(event: Event) -> None:
        if output is not None:
            output.drain()  # what was printed before comes first
        caller.send(event)

    def make(job: Job) -> Measurer:
        say: Callable[[str], object] = lambda line: caller.pass_on(Note(line))  # noqa: E731
        meters = find_meters(root, job.plan.machine)
        if isinstance(hosted, HostedServer):
            return LocalMeasurer(meters, root, generation_kind(hosted.serving, say))
        passing = Passing(say, output.stdout if output else 1, hosted.command)
        return LocalMeasurer(meters, root, program_kind(passing))

    return answer_job(lines, send, make)


def _claim_stdin() -> int:
    """Reserve standard input for messages: other readers get an empty one."""
    questions = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return questions


def _read(lines: LineReader) -> Hosted:
    try:
        hosted: Hosted = msgspec.json.decode(lines.next() or b"", type=Hosted)
    except DECODE_ERRORS as error:
        raise SchemaError(f"cannot read what is to be measured: {error}") from error
    return hosted


def _enter(folder: str | None) -> None:
    """Change to ``folder``, else to the user's home."""
    path = os.path.expanduser(folder or "~")  # noqa: PTH111 - Path raises where no home is known
    with reported(UsageError, "cannot be entered", where=path, fix="--remote-folder DIR"):
        os.chdir(path)


def _describe(hosted: Hosted, root: Path) -> Described:
    may_set = os.geteuid() == 0 or (root != SYSTEM_ROOT and os.access(root, os.W_OK))
    if isinstance(hosted, HostedProgram):
        depends = tuple(map(Path, hosted.depends))
        check_dependencies(depends)
        trial = make_program_trial(
            hosted.command, hosted.name, hosted.metric, hosted.variables, depends
        )
        return DescribedProgram(trial, may_set)
    check_dependencies(hosted.serving.depends)
    serving = msgspec.structs.replace(identified(hosted.serving), folder=str(Path.cwd()))
    return DescribedServer(plan_trials(serving, hosted.lengths), serving, may_set)


class _Caller:
    """Lines to the caller, by several threads."""

    def __init__(self, lines: IO[bytes]) -> None:
        self._lines, self._lock = lines, threading.Lock()

    def send(self, message: object) -> None:
        """Write one line; raises BrokenPipeError where nobody reads."""
        self._write(encode_line(message))

    def pass_on(self, passed: Passed) -> None:
        """Write one line; without a reader it is dropped, because all is about to end."""
        with contextlib.suppress(OSError):
            self.send(passed)

    def beat(self) -> None:
        """Send heartbeats, for events may be hours apart."""
        with contextlib.suppress(OSError):
            while True:
                time.sleep(HEARTBEAT_S)
                self._write(HEARTBEAT)

    def _write(self, line: bytes) -> None:
        with self._lock:
            self._lines.write(line)
            self._lines.flush()


class _Output:
    """The streams that a program has in place of the caller's; a thread passes on what it prints.

    Standard error is that of this process, whose own messages keep the one that it had.
    """

    def __init__(self, pass_on: Callable[[Passed], None]) -> None:
        self._pass_on = pass_on
        sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
        out, self.stdout = os.pipe()
        err, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._waking, self._wake = os.pipe()
        self._is_drained = threading.Event()
        streams: dict[int, Stream] = {out: "stdout", err: "stderr"}
        threading.Thread(target=self._work, args=(streams,), name="output", daemon=True).start()

    def drain(self) -> None:
        """Wait until all is passed on that has been written."""
        self._is_drained.clear()
        os.write(self._wake, b".")
        self._is_drained.wait(_DRAIN_S)

    def _work(self, streams: dict[int, Stream]) -> None:
        while True:
            ready = set(select.select([*streams, self._waking], [], [])[0])
            for handle in ready & streams.keys():
                data = os.read(handle, _READ_BYTES)
                self._pass_on(OutputPiece(streams[handle], data))
            if ready == {self._waking}:
                os.read(self._waking, _READ_BYTES)
                self._is_drained.set()


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)  # a thread may still wait for the caller
