"""Measures a job in a child process: what crashes there ends its own trial, not the sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mansard.core.errors import RESUMES, MeasurementError
from mansard.core.processes.line_channel import LineReader
from mansard.core.processes.programs import how_it_ended, let_interrupts_end_waits
from mansard.measuring.events import (
    SILENCE_S,
    Aborted,
    Done,
    Event,
    Lengthy,
    Progress,
    Row,
    event_decoder,
)
from mansard.measuring.kind import Job, encode_job, find_kind

# The child finds what this process finds, and nothing besides: not even in the present folder.
_CHILD = (
    "import runpy, sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "runpy.run_module('mansard.measuring', run_name='__main__', alter_sys=True)"
)
_GRACE_S = 3.0  # to end by itself when its input ends
_TAIL_BYTES = 400
_INTERRUPTS = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGTERM})


class _CrashError(Exception):
    """A signal ended the child, or it hangs."""


@dataclass(frozen=True)
class GuardedMeasurer:
    """A measurer whose work is done in a child process, by ``python -m mansard.measuring``.

    Where that crashes or hangs within a trial, the kind's ``crashed`` makes the row of the trial,
    and another child does the rest.
    """

    root: Path
    files: Path  # folder of the files that the plan names
    outputs: Path | None = None  # folder that trials write files into
    silence_s: float = SILENCE_S  # of the child: beyond it, and what it announces, it hangs
    first_word_s: float = 10.0  # of silence, until it is said what is waited for

    def __call__(self, job: Job) -> Iterator[Event]:
        """Do the job; closing the iterator ends the child. Raises MeasurementError."""
        kind, plan = find_kind(job.plan.kind), job.plan
        wanted = set(job.missing)
        missing = [spec for spec in plan.trials if spec.trial_id in wanted]
        while True:
            start_s: float | None = None  # of the trial that runs
            try:
                rest = tuple(spec.trial_id for spec in missing)
                for event in self._events(Job(plan=plan, missing=rest, read_back=job.read_back)):
                    if isinstance(event, Progress):
                        start_s = time.monotonic()
                    elif isinstance(event, Row):
                        start_s = None
                        missing.pop(0)
                    yield event
            except _CrashError as error:
                if start_s is None or not missing or kind.crashed is None:
                    raise MeasurementError(
                        f"the measuring process {error}",
                        fix=RESUMES,
                    ) from error
                how, duration_s = f"the process that ran it {error}", time.monotonic() - start_s
                yield Row(kind.crashed(plan, missing.pop(0), how, duration_s))
            else:
                return

    def _events(self, job: Job) -> Iterator[Event]:
        decoder = event_decoder(find_kind(job.plan.kind).row_type)
        places = ["--board", str(self.root), "--files", str(self.files), "--unguarded"]
        if self.outputs is not None:
            places += ["--outputs", str(self.outputs)]
        command = (sys.executable, "-I", "-c", _CHILD, ":".join(sys.path), *places)
        with tempfile.TemporaryFile() as errors, _started(command, errors) as process:
            jobs, lines = _streams(process)
            with suppress(BrokenPipeError):
                _write_all(jobs.fileno(), encode_job(job))
            reader, last = LineReader(lines.fileno()), Lengthy(now="", at_most_s=0.0)
            while True:
                yield from self._silences(reader, last)
                line = reader.next()
                if line is None:
                    break
                event = decoder.decode(line)
                if isinstance(event, Progress):
                    last = Lengthy(now=event.now, at_most_s=0.0)
                elif isinstance(event, Lengthy):
                    last = event
                yield event
                if isinstance(event, Done | Aborted):
                    return
            try:
                code = process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                raise _CrashError("goes on, but closed its output") from None
            raise _how_it_ended(code, _last_line(errors))

    def _silences(self, reader: LineReader, last: Lengthy) -> Iterator[Event]:
        """Until something can be read: what is waited for, after a while and ever more seldom.

        ``last``: what the child does, and how long that may take. Raises _CrashError where it is
        silent for longer.
        """
        most_s = max(self.silence_s, last.at_most_s)
        waited_s, word_s = 0.0, min(self.first_word_s, most_s)
        while not reader.is_ready_within(word_s - waited_s):
            waited_s = word_s
            if waited_s >= most_s:
                raise _CrashError(f"was killed, as it said nothing for {most_s:g} s")
            word_s = min(2 * waited_s, most_s)
            now = f"{last.now or 'starting'}: no answer for {waited_s:g} s, waiting for {most_s:g}"
            yield Lengthy(now=now, at_most_s=most_s - waited_s)


@contextmanager
def _started(command: tuple[str, ...], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The child until the end of this: it ends when its input does, else it is killed."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,  # Ctrl-C is for this process, which ends its child
        bufsize=0,  # nothing is left to be written when it is to end
    )
    jobs, lines = _streams(process)
    try:
        yield process
    finally:
        jobs.close()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            # One that hangs in a driver is killed once the driver returns: nobody waits for that.
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        finally:  # also where another Ctrl-C comes meanwhile
            process.kill()
            lines.close()


def _write_all(handle: int, data: bytes) -> None:
    let_interrupts_end_waits()
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _streams(process: Any) -> tuple[IO[bytes], IO[bytes]]:
    """What the child reads, and what it writes: both are pipes here."""
    return process.stdin, process.stdout


def _last_line(errors: IO[bytes]) -> str:
    """What the child said last."""
    size = os.fstat(errors.fileno()).st_size
    text = os.pread(errors.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    lines = text.decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _how_it_ended(code: int, said: str) -> Exception:
    """A signal from outside ends the run, any other one a trial."""
    if code >= 0 or -code in _INTERRUPTS:
        how = f"the measuring process {how_it_ended(code)}"
        return MeasurementError(f"{how}: {said}" if said else how, fix=RESUMES)
    how = how_it_ended(code)
    return _CrashError(how if -code == signal.SIGKILL or not said else f"{how}: {said}")
