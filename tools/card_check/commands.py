"""The command line of the check: three commands for a person, and the steps that they start."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from tools.card_check import SOFTWARE
from tools.card_check.__main__ import CARRIED, ROOT

SECONDS = 480.0
STEPS = ("facts", "tests", "kernels", "rest", "meter", "peers", "counters", "countings", "program")


def main(arguments: Sequence[str]) -> int:
    """Do what is asked for; returns the exit code: 2 usage, 1 a failure or a line that fails."""
    options = _parser().parse_args(arguments)
    try:
        return _COMMANDS[options.command](options)
    except Exception as error:
        from mansard.core.errors import MansardError
        from tools.card_check.words import words_of

        print(f"card_check: {words_of(error)}", file=sys.stderr)
        return error.exit_code if isinstance(error, MansardError) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="card_check", description="checks an NVIDIA card, and Mansard on it"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    prepare = commands.add_parser("prepare", help="fetch what the machine with the card lacks")
    prepare.add_argument("--python", default="3.12", help="the Python there (3.12)")
    prepare.add_argument("--into", type=Path, default=CARRIED, help="folder (.card_check/site)")
    prepare.add_argument("packages", nargs="*", default=["msgspec"], help="default: msgspec")
    run = commands.add_parser("run", help="on the machine with the card: check it")
    run.add_argument("--out", type=Path, required=True, help="folder of the results")
    run.add_argument("--seconds", type=_seconds, default=SECONDS, help="all of it at most (480)")
    run.add_argument("--software", choices=SOFTWARE, help="a card in software, to try the check")
    report = commands.add_parser("report", help="make a report of what came back")
    report.add_argument("folder", type=Path, help="folder of the results")
    report.add_argument("--into", type=Path, default=ROOT / ".card_check", help="runs and HTML")
    report.add_argument("--results", type=Path, default=ROOT / "docs/results", help="document")
    _add_internal(commands)
    return parser


def _add_internal(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What the check starts itself."""
    step = commands.add_parser("step")
    step.add_argument("step", choices=STEPS)
    step.add_argument("--work", type=Path, required=True)
    load = commands.add_parser("load")
    for parser in (step, load):
        parser.add_argument("--seconds", type=float, default=10.0)
        parser.add_argument("--software", choices=SOFTWARE)
    watch = commands.add_parser("watch")
    watch.add_argument("--file", type=Path, required=True)
    watch.add_argument("--seconds", type=float, required=True)


def _seconds(text: str) -> float:
    value = float(text)
    if not 30 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text} s: give 30 to 3600")
    return value


def _prepare(options: argparse.Namespace) -> int:
    from tools.card_check.preparing import prepare

    return prepare(options.packages, options.python, options.into)


def _run(options: argparse.Namespace) -> int:
    from tools.card_check.running import run_check

    return run_check(options.out, options.seconds, options.software)


def _report(options: argparse.Namespace) -> int:
    from tools.card_check.reporting import report

    return report(options.folder, options.into, options.results)


def _step(options: argparse.Namespace) -> int:
    from tools.card_check.stepping import run_step

    return run_step(options.step, options.work, options.seconds, options.software)


def _load(options: argparse.Namespace) -> int:
    from tools.card_check.opening import open_card
    from tools.card_check.steps.load import run_load

    flop = run_load(open_card(options.software), options.seconds)
    print(f"{flop / 1e12:.6f} TFLOP")
    return 0


def _watch(options: argparse.Namespace) -> int:
    from tools.card_check.steps.looks import record_looks

    with suppress(KeyboardInterrupt):  # how the step that it runs beside ends it
        record_looks(options.file, options.seconds)
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "prepare": _prepare,
    "run": _run,
    "report": _report,
    "step": _step,
    "load": _load,
    "watch": _watch,
}
