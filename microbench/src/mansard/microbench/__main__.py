"""``python -m mansard.microbench plan.json``: a plan goes in, progress comes out as JSON lines.

This is what runs on a board, in a container: it needs numpy, numba and msgspec alone. It
measures in the power mode that it finds; setting modes is the host's, which puts them back.
Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from mansard.core.documents import read_document, write_document
from mansard.core.errors import MansardError, UsageError
from mansard.core.signals import turn_signals_into_interrupts
from mansard.device.choosing.choice import choose_modes
from mansard.device.identity import identify
from mansard.device.meters.meter import find_meters
from mansard.device.system import SYSTEM_ROOT
from mansard.microbench.plan import Plan, make_plan
from mansard.microbench.protocol import PROTOCOLS
from mansard.microbench.runner import SweepState, run_plan


def main(arguments: list[str] | None = None) -> int:
    """Run or write a plan; returns the exit code."""
    options = _parser().parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        if options.make is not None:
            _write_plan(options.plan, options.mode, options.make)
        else:
            _run(options.plan, options.runs)
    except KeyboardInterrupt:
        _fail("interrupted; finished trials are kept, the same command resumes")
        return 130
    except MansardError as error:
        _fail(str(error))
        return error.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mansard.microbench", description=__doc__)
    parser.add_argument("plan", type=Path, help="the plan to run, or to write with --make")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument(
        "--make", choices=sorted(PROTOCOLS), help="write a plan for this machine instead"
    )
    parser.add_argument("--mode", default="", help="power mode of the plan that --make writes")
    return parser


def _write_plan(path: Path, mode: str, profile: str) -> None:
    machine = identify()
    modes = choose_modes(mode, SYSTEM_ROOT, machine)
    if len(modes) != 1:
        raise UsageError("a plan has one power mode", fix="write one plan for each mode")
    write_document(path, make_plan(machine, modes[0], profile))


def _run(path: Path, runs: Path) -> None:
    plan = read_document(path, Plan)
    meters = find_meters(SYSTEM_ROOT, plan.machine)
    outcome = run_plan(plan, runs, meters=meters, on_progress=_print_state)
    _print({"run": outcome.run_id, "measured": outcome.n_measured, "resumed": outcome.n_resumed})


def _print_state(state: SweepState) -> None:
    _print(state)


def _print(value: object) -> None:
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def _fail(line: str) -> None:
    sys.stderr.write(f"mansard.microbench: {line}\n")


if __name__ == "__main__":
    sys.exit(main())
