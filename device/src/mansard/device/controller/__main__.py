"""``python -m mansard.device.controller``: answers on stdout what is asked on stdin.

Started on the board that is to be measured, in a container or not. It ends with its stdin, and
puts the board back whatever ends it but SIGKILL. Exit codes: 0 done, 1 failed, 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.core.processes.line_channel import LineReader, claim_stdout
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.device.controller import LocalController
from mansard.device.controller.serving import enter, load_everything, serve
from mansard.device.system import SYSTEM_ROOT


def main(arguments: list[str] | None = None) -> int:
    """The exit code."""
    options = _parser().parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        answers = claim_stdout()
        load_everything()
        serve(lambda: _make(options), LineReader(0, options.quiet_s), answers)
    except BrokenPipeError:
        return 1  # the caller is gone; the board is as it was
    except KeyboardInterrupt:
        _say("stopped; the board is as it was")
        return 130
    except MansardError as error:
        _say(str(error))
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mansard.device.controller", description=__doc__)
    root = parser.add_mutually_exclusive_group()
    root.add_argument("--board", type=Path, help="root folder of a simulated board")
    root.add_argument("--enter", type=Path, help="root of the board, mounted in this container")
    parser.add_argument(
        "--quiet-s", type=float, help="end after so many seconds without a line on stdin"
    )
    return parser


def _make(options: argparse.Namespace) -> LocalController:
    if options.enter is not None:
        enter(options.enter)
    return LocalController(options.board or SYSTEM_ROOT)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"mansard.device.controller: {line}\n")


if __name__ == "__main__":
    code = main()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    # Not sys.exit: it would write out what an unread answer has left.
    os._exit(code)
