"""A measuring process and the caller at the other end of its pipe: a job in, events out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from mansard.core.errors import MansardError, SchemaError
from mansard.core.processes.line_channel import LineReader, to_wire
from mansard.measuring.events import Aborted, Event, Measurer
from mansard.measuring.kind import Job, decode_job

_AGAIN_S = 5.0  # an interrupt that comes while a library compiles may be swallowed there


def answer_job(
    lines: LineReader, send: Callable[[Event], None], make: Callable[[Job], Measurer]
) -> int:
    """Do the job that ``lines`` begins with, by the measurer that ``make`` makes for it.

    Returns the exit code; an error is the last event. The end of ``lines`` interrupts the main
    thread, which this runs in: raises KeyboardInterrupt.
    """
    try:
        job = _read_job(lines)
        # A shell starts what runs in its background with Ctrl-C ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=_interrupt_at_end, args=(lines,), daemon=True).start()
        for event in make(job)(job):
            send(event)
    except MansardError as error:
        send(Aborted(to_wire(error)))
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
            fix="use the same version of Mansard inside and outside: mansard data image build",
        ) from error


def _interrupt_at_end(lines: LineReader) -> None:
    """Interrupt the main thread when the input ends: the process that gave the job is gone."""
    lines.wait_for_end()
    main = threading.main_thread().ident
    while main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # ends a wait of the main thread, too
        time.sleep(_AGAIN_S)
