"""The ``mansard`` command: its commands, its exit codes, and what the user sees of errors.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import MappingProxyType

from mansard.cli.commands import GROUP_OF
from mansard.cli.console import (
    discard_output,
    finish_notes,
    flush_output,
    forget_notes,
    prepare_streams,
    print_error,
    reporting_work,
    take_verbosity,
)
from mansard.cli.json_output import ErrorDocument, finish_json, forget_json, is_json
from mansard.cli.remedies import take_given
from mansard.core.errors import RESUMES, MansardError
from mansard.core.extras import missing_library
from mansard.core.processes.line_channel import give_stdout_to_data
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.core.text import printable

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
_NEW_OBJECTS = 50_000  # between two looks for garbage: nearly all objects last as long as a command
_KEPT = f"interrupted; {RESUMES}"
# By command; all others write their whole output or nothing.
_INTERRUPTED = MappingProxyType(
    {
        **dict.fromkeys(("demo", "bench", "measure", "multi run", "multi contention"), _KEPT),
        **dict.fromkeys(("offload run", "models build", "models ncu run"), _KEPT),
        "data merge": "interrupted; merged runs are complete, the same command merges the rest",
        "board watch": "ended; recorded rows are complete",
        "board restore": "interrupted; settings that are not restored yet are kept for the next "
        "'mansard board restore'",
    }
)
_MEASURES_WITH = MappingProxyType({"multi schedule": "--run", "recommend": "--measure"})


def main() -> None:
    """Run the command line and leave with the documented exit code."""
    gc.set_threshold(_NEW_OBJECTS)
    turn_signals_into_interrupts()
    prepare_streams()
    if is_json(_without_program(sys.argv[1:])) and "--help" not in sys.argv:
        give_stdout_to_data()
    code = run(sys.argv[1:])
    gc.freeze()  # else the interpreter looks for garbage in what ends with it
    sys.exit(code)


def with_groups(arguments: Sequence[str]) -> list[str]:
    """``arguments`` with the group before a command that is called without it."""
    words = list(arguments)
    # No global option takes a value: the first word without a dash is the command.
    place = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    if place is not None and words[place] in GROUP_OF:
        words.insert(place, GROUP_OF[words[place]])
    return words


def _without_program(arguments: list[str]) -> list[str]:
    """The arguments before "--": those after it are a program's."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def run(arguments: list[str]) -> int:
    """The exit code of the command line ``arguments``; nothing else escapes."""
    arguments = with_groups(take_verbosity(arguments))
    words = _without_program(arguments)
    forget_json()
    forget_notes()
    take_given(words)
    try:
        with reporting_work():
            code = _command(arguments)
        if code != EXIT_INTERRUPTED:  # Typer turns an interrupt into this, without a word
            finish_json(None, words)
            flush_output()
            return code
        error = _report_interrupt(words)
    except KeyboardInterrupt:
        error = _report_interrupt(words)
    except MansardError as failure:
        if "--debug" in words:
            raise
        print_error(str(failure))
        error = ErrorDocument.of(failure)
    except Exception as failure:
        error = _report_usage(failure) or _report_unexpected(failure, words)
    try:
        finish_json(error, words)
        flush_output()
    except OSError:
        discard_output()
    return error.exit_code


def _command(arguments: list[str]) -> int:
    """Run a command, which may raise anything; its exit code."""
    from mansard.cli.app import make_app  # takes a moment, in which a Ctrl-C may come

    try:
        code = make_app(arguments)(arguments, prog_name="mansard", standalone_mode=False)
    except SystemExit as leaving:
        code = leaving.code
    except ModuleNotFoundError as error:
        if missing := missing_library(error):
            raise missing from error
        raise
    finally:
        finish_notes()
        flush_output()
    if code is None:
        return 0
    return code if isinstance(code, int) else EXIT_FAILURE


def _report_interrupt(arguments: list[str]) -> ErrorDocument:
    line = interrupted_line(arguments)
    print_error(line)
    return _document("Interrupted", line, exit_code=EXIT_INTERRUPTED)


def _report_usage(error: Exception) -> ErrorDocument | None:
    """What the parser of the command line, or a question, says; None for other errors.

    They are recognised by their methods: Typer does not export the class that they share.
    """
    show, format_message = getattr(error, "show", None), getattr(error, "format_message", None)
    if show is None or format_message is None:
        if type(error).__name__ != "Abort":  # a question that got no answer
            return None
        print_error("no answer; nothing was done")
        return _document("Aborted", "no answer; nothing was done")
    context = getattr(error, "ctx", None)
    where = "mansard" if context is None else context.command_path
    show()
    what = (
        "no command is named" if type(error).__name__ == "NoArgsIsHelpError" else format_message()
    )
    return _document("UsageError", what, where=where, fix=f"{where} --help", exit_code=EXIT_USAGE)


def _document(
    kind: str,
    what: str,
    *,
    where: str | None = None,
    fix: str | None = None,
    exit_code: int = EXIT_FAILURE,
) -> ErrorDocument:
    return ErrorDocument(kind=kind, what=printable(what), where=where, fix=fix, exit_code=exit_code)


def interrupted_line(arguments: Sequence[str]) -> str:
    """How an interrupted command left its output; ``arguments``: with groups."""
    if "--live" in arguments:
        return "interrupted; earlier results are written"
    # No global option takes a value.
    words = [word for word in arguments if not word.startswith("-")]
    options = {word.partition("=")[0] for word in arguments}
    for command in (" ".join(words[:n_words]) for n_words in (1, 2, 3)):
        if _MEASURES_WITH.get(command) in options:
            return _KEPT
        if command in _INTERRUPTED:
            return _INTERRUPTED[command]
    return "interrupted; nothing was written"


def _report_unexpected(error: Exception, arguments: list[str]) -> ErrorDocument:
    if "--debug" in arguments:
        raise error
    if isinstance(error, OSError):
        discard_output()
        where = error.filename or "standard output"
        what = error.strerror or str(error)
        if not isinstance(error, BrokenPipeError):  # else the reader has seen enough: head, less
            print_error(printable(f"{where}: {what}"))
        return _document("OSError", what, where=printable(str(where)))
    if isinstance(error, MemoryError):
        kind, what = "MemoryError", "out of memory"
        fix = "process less at once"
    else:
        kind, what = "InternalError", f"internal error, {type(error).__name__}: {error}"
        fix = "please report it with --debug's output"
    print_error(printable(f"{what}; {fix}"))
    return _document(kind, what, fix=fix)


if __name__ == "__main__":
    main()
