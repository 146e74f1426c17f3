"""The ``mansard`` command: its commands, its exit codes, and what the user sees of errors.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP).
"""

from __future__ import annotations

import sys

from mansard.cli.console import (
    discard_output,
    finish_notes,
    flush_output,
    prepare_streams,
    print_error,
)
from mansard.core.errors import MansardError
from mansard.core.signals import turn_signals_into_interrupts
from mansard.core.text import printable

EXIT_FAILURE, EXIT_INTERRUPTED = 1, 130


def main() -> None:
    """Run the command line and leave with the documented exit code."""
    turn_signals_into_interrupts()
    prepare_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of the command line ``arguments``; nothing else escapes."""
    # What comes after "--" is another program's.
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    debug = "--debug" in own
    try:
        from mansard.cli.app import make_app  # takes a moment, in which a Ctrl-C may come

        try:
            make_app(arguments)(arguments)
        finally:
            finish_notes()
            flush_output()
    except SystemExit as leaving:
        code = _exit_code(leaving)
        if code == EXIT_INTERRUPTED:  # Typer turns an interrupt into this, without a word
            print_error(_interrupted(own))
        return code
    except KeyboardInterrupt:
        print_error(_interrupted(own))
        return EXIT_INTERRUPTED
    except MansardError as error:
        if debug:
            raise
        print_error(str(error))
        return error.exit_code
    except Exception as error:
        if debug:
            raise
        _print_unexpected(error)
        return EXIT_FAILURE
    return 0


def _interrupted(arguments: list[str]) -> str:
    if "--live" in arguments:
        return "interrupted; what came until then is written"
    # No global option takes a value.
    command = next((word for word in arguments if not word.startswith("-")), "")
    # What measures and a merge keep what they have; the others write all or nothing.
    is_run = command == "schedule" and "--run" in arguments
    if command in ("bench", "contention", "measure", "multi") or is_run:
        return "interrupted; what was finished is kept, the same command resumes"
    if command == "merge":
        return "interrupted; the runs that are there are whole, the same command brings the rest"
    if command == "watch":
        return "ended; rows that were recorded are whole"
    if command == "restore":
        return "interrupted; what is not back yet is kept for the next 'mansard restore'"
    return "interrupted; nothing was written"


def _print_unexpected(error: Exception) -> None:
    if isinstance(error, OSError):
        discard_output()
        if not isinstance(error, BrokenPipeError):  # else the reader has seen enough: head, less
            where = error.filename or "standard output"
            print_error(printable(f"{where}: {error.strerror or error}"))
        return
    if isinstance(error, MemoryError):
        print_error("the memory does not suffice for this input; give less of it at once")
        return
    line = printable(f"internal error, {type(error).__name__}: {error}")
    print_error(f"{line}; please report it with --debug's output")


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code if isinstance(leaving.code, int) else EXIT_FAILURE


if __name__ == "__main__":
    main()
