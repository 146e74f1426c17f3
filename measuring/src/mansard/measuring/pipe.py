"""A job on standard input, its events on standard output: how a container measures.

The process ends when its input ends, or falls silent where it is told to expect a line now
and then: so it cannot outlive the one that started it, or the link to it, and no
board is kept busy by a measurement that is not kept.
"""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

from mansard.core.errors import MansardError, SchemaError
from mansard.core.line_channel import (
    LineReader,
    claim_stdout,
    encode_line,
    to_wire,
)
from mansard.device.meters.finding import find_meters
from mansard.measuring.events import Event, Failed
from mansard.measuring.kind import Job, decode_job
from mansard.measuring.measurer import LocalMeasurer

_INPUT = 0
_AGAIN_S = 5.0  # an interrupt that comes while a library compiles may be swallowed there


def measure_for_pipe(root: Path, heartbeat_s: float | None = None) -> int:
    """Do the job on standard input; returns the exit code. Errors are the last event.

    With ``heartbeat_s``, an input that is silent for so long counts as ended.
    """
    events, lines = claim_stdout(), LineReader(_INPUT, heartbeat_s)

    def send(event: Event) -> None:
        events.write(encode_line(event))
        events.flush()

    try:
        job = _read_job(lines)
        # A shell starts what runs in its background with Ctrl-C ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=_interrupt_at_end, args=(lines,), daemon=True).start()
        measurer = LocalMeasurer(meters=find_meters(root, job.plan.machine), root=root)
        for event in measurer(job):
            send(event)
    except MansardError as error:
        send(Failed(to_wire(error)))
        return error.exit_code
    except BrokenPipeError as error:  # no reader is left
        raise KeyboardInterrupt from error
    return 0


def _read_job(lines: LineReader) -> Job:
    try:
        return decode_job(lines.next() or b"")
    except SchemaError as error:
        raise SchemaError(
            error.what,
            where="standard input",
            fix="use the same version of Mansard inside and outside: mansard image build",
        ) from error


def _interrupt_at_end(lines: LineReader) -> None:
    """Interrupt the main thread when the input ends: the process that gave the job is gone."""
    lines.wait_for_end()
    main = threading.main_thread().ident
    while main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # ends a wait of the main thread, too
        time.sleep(_AGAIN_S)
