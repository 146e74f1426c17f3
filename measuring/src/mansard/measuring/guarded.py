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

from mansard.core.errors import MeasurementError
from mansard.measuring.events import Aborted, Done, Event, Progress, Row, event_decoder
from mansard.measuring.kind import Job, encode_job, find_kind

# The child finds what this process finds, and nothing besides: not even in the present folder.
_CHILD = (
    "import runpy, sys; sys.path[:] = sys.argv.pop(1).split(':'); "
    "runpy.run_module('mansard.measuring', run_name='__main__', alter_sys=True)"
)
_GRACE_S = 3.0  # to end by itself when its input ends
_TAIL_BYTES = 400
_CRASHES = frozenset(
    {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV}
)


class _CrashError(Exception):
    """A signal ended the child."""


@dataclass(frozen=True)
class GuardedMeasurer:
    """A measurer whose work is done in a child process, by ``python -m mansard.measuring``.

    Where that crashes within a trial, the kind's ``crashed`` makes the row of the trial, and
    another child does the rest.
    """

    root: Path
    files: Path  # folder of the files that the plan names
    outputs: Path | None = None  # folder that trials write files into

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
                        fix="what was measured is kept: the same command resumes",
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
                jobs.write(encode_job(job))
                jobs.flush()
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                event = decoder.decode(line)
                yield event
                if isinstance(event, Done | Aborted):
                    return
            raise _how_it_ended(process.wait(), _last_line(errors))


@contextmanager
def _started(command: tuple[str, ...], errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The child until the end of this: it ends when its input does, else it is killed."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,  # Ctrl-C is for this process, which ends its child
    )
    with process:
        try:
            yield process
        finally:
            with suppress(BrokenPipeError):
                _streams(process)[0].close()
            try:
                process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()


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
    said = f": {said}" if said else ""
    if -code not in _CRASHES:
        return MeasurementError(f"the measuring process ended with code {code}{said}")
    if -code == signal.SIGKILL:
        return _CrashError("was killed, as it is where the memory runs out")
    return _CrashError(f"crashed ({signal.Signals(-code).name}){said}")
