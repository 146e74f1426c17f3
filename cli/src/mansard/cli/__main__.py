"""The ``mansard`` command: its commands, its exit codes, and what the user sees of errors.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP).
"""

from __future__ import annotations

import sys

from mansard.cli.app import app
from mansard.cli.console import print_error
from mansard.core.errors import MansardError
from mansard.core.signals import turn_signals_into_interrupts

EXIT_FAILURE, EXIT_INTERRUPTED = 1, 130
_INTERRUPTED = "interrupted; what was finished is kept, the same command resumes"


def main() -> None:
    """Run the command line and leave with the documented exit code."""
    turn_signals_into_interrupts()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of the command line ``arguments``; nothing else escapes."""
    debug = "--debug" in arguments
    try:
        app(arguments)
    except SystemExit as leaving:
        code = _exit_code(leaving)
        if code == EXIT_INTERRUPTED:  # Typer turns an interrupt into this, without a word
            print_error(_INTERRUPTED)
        return code
    except KeyboardInterrupt:
        print_error(_INTERRUPTED)
        return EXIT_INTERRUPTED
    except MansardError as error:
        if debug:
            raise
        print_error(str(error))
        return error.exit_code
    except Exception as error:
        if debug:
            raise
        name = type(error).__name__
        print_error(f"internal error, {name}: {error}; please report it with --debug's output")
        return EXIT_FAILURE
    return 0


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code if isinstance(leaving.code, int) else EXIT_FAILURE


if __name__ == "__main__":
    main()
