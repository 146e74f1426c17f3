"""``python -m mansard.measuring``: a job goes in as one line, events come out as JSON lines.

This is what runs in a container: it needs what the job's kind needs, and it measures in the
power mode that it finds. It ends when its input ends, or falls silent where it is told to expect
a line now and then: so it cannot outlive the process that started it, or the link to it, and no
board is kept busy by a measurement that is not kept. Exit codes: 0 done, 1 failed, 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mansard.core.processes.line_channel import LineReader, claim_stdout, encode_line
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.device.meters.finding import find_meters
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.answering import answer_job
from mansard.measuring.events import Event, Measurer
from mansard.measuring.guarded import GuardedMeasurer
from mansard.measuring.identity import set_environment
from mansard.measuring.kind import Job
from mansard.measuring.measurer import LocalMeasurer

_INPUT = 0


def main(arguments: list[str] | None = None) -> int:
    """Do the job on standard input; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mansard.measuring", description=__doc__)
    parser.add_argument(
        "--board", type=Path, default=SYSTEM_ROOT, help="root folder of the board's /sys"
    )
    parser.add_argument("--files", type=Path, help="folder of the files that the job names")
    parser.add_argument("--outputs", type=Path, help="folder that trials write files into")
    parser.add_argument(
        "--unguarded", action="store_true", help="measure in this process, which may crash then"
    )
    parser.add_argument(
        "--heartbeat", type=float, metavar="S", help="end when stdin is silent for S seconds"
    )
    options = parser.parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        return measure_for_pipe(
            options.board,
            options.heartbeat,
            options.files,
            options.outputs,
            is_guarded=not options.unguarded,
        )
    except KeyboardInterrupt:
        sys.stderr.write("mansard.measuring: interrupted; finished trials are kept\n")
        return 130


def measure_for_pipe(
    root: Path,
    heartbeat_s: float | None = None,
    files: Path | None = None,
    outputs: Path | None = None,
    *,
    is_guarded: bool = False,
) -> int:
    """Do the job on standard input; returns the exit code. Errors are the last event.

    With ``heartbeat_s``, an input that is silent for that long counts as ended. What runs ``files``
    may crash, so where ``is_guarded`` it runs in a process of its own.
    """
    events, lines = claim_stdout(), LineReader(_INPUT, heartbeat_s)

    def send(event: Event) -> None:
        events.write(encode_line(event))
        events.flush()

    def make(job: Job) -> Measurer:
        set_environment(job.plan.environment)
        if is_guarded and files is not None:
            return GuardedMeasurer(root, files, outputs)
        meters = find_meters(root, job.plan.machine)
        return LocalMeasurer(meters=meters, root=root, files=files, outputs=outputs, tell=send)

    return answer_job(lines, send, make)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Not sys.exit: an interrupt that a library's own exec() has seen would be the exit code.
    os._exit(code)
