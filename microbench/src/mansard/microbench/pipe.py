"""A job on standard input, its events on standard output: how a container measures.

The process ends when its input ends, or falls silent where it is told to expect a line now
and then: so it cannot outlive the one that started it, or the link to it, and nothing of a
board is kept busy by a measurement that nobody keeps.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from mansard.core.carried import carry
from mansard.core.errors import MansardError, SchemaError
from mansard.device.meters.meter import find_meters
from mansard.microbench.events import Event, Failed, Job
from mansard.microbench.measurer import LocalMeasurer

_INPUT = 0
_MAX_JOB_BYTES = 64 << 20  # a job with tens of thousands of trials is shorter


def measure_for_pipe(root: Path, heartbeat_s: float | None = None) -> int:
    """Do the job on standard input; returns the exit code. Errors are the last event.

    With ``heartbeat_s``, an input that is silent for so long counts as ended.
    """
    # What a library prints must not stand between the events.
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        job = _read_job()
        # A shell starts what runs in its background with Ctrl-C ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=_interrupt_at_end, args=(heartbeat_s,), daemon=True).start()
        measurer = LocalMeasurer(meters=find_meters(root, job.plan.machine), root=root)
        for event in measurer(job):
            _write(events, event)
    except MansardError as error:
        _write(events, Failed(carry(error)))
        return error.exit_code
    except BrokenPipeError as error:  # nobody listens any more
        raise KeyboardInterrupt from error
    return 0


def _read_job() -> Job:
    try:
        return msgspec.json.decode(_read_line(), type=Job)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SchemaError(
            f"cannot read the job: {error}",
            where="standard input",
            fix="use the same version of Mansard inside and outside: mansard image build",
        ) from error


def _read_line() -> bytes:
    """The first line, unbuffered: what comes after it is for the watching thread."""
    line = b""
    while b"\n" not in line and len(line) < _MAX_JOB_BYTES:
        piece = os.read(_INPUT, 1 << 20)
        if not piece:
            break
        line += piece
    return line.partition(b"\n")[0]


def _interrupt_at_end(heartbeat_s: float | None) -> None:
    """Interrupt the main thread when the input ends: whoever asked for the job is gone."""
    while select.select([_INPUT], [], [], heartbeat_s)[0]:
        if not os.read(_INPUT, 4096):
            break
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # ends a wait of the main thread, too


def _write(stream: BinaryIO, event: Event) -> None:
    stream.write(msgspec.json.encode(event) + b"\n")
    stream.flush()
