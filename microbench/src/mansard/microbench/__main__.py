"""``python -m mansard.microbench``: a plan goes in, JSON lines come out.

It runs on a board, in a container or not, and needs numpy, numba and msgspec, and CuPy
for a GPU. It measures in the power mode that it finds; setting modes is the host's, which
puts them back. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mansard.core.errors import RESUMES, MansardError, UsageError
from mansard.core.processes.line_channel import encode_line, give_stdout_to_data
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.core.storage.documents import read_document, write_document
from mansard.device.identity import identify
from mansard.device.meters.finding import find_meters
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.protocol import PROTOCOLS
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.microbench.plan import KernelPlan, make_plan, probe


def main(arguments: list[str] | None = None) -> int:
    """Run the action of the options; returns the exit code."""
    options = _parser().parse_args(arguments)
    turn_signals_into_interrupts()
    try:
        return _do(options)
    except KeyboardInterrupt:
        _fail(f"interrupted; {RESUMES}")
        return 130
    except MansardError as error:
        _fail(str(error))
        return error.exit_code


def _do(options: argparse.Namespace) -> int:
    if options.probe is not None:
        _print(probe(options.probe))
    elif options.plan is None:
        raise UsageError("there is no plan", fix="give one, or --probe")
    elif options.make is not None:
        _write_plan(options.plan, options.mode, options.make)
    else:
        _run(options.plan, options.runs, options.board)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mansard.microbench", description=__doc__)
    parser.add_argument("plan", nargs="?", type=Path, help="the plan to run, or to write")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument(
        "--make", choices=sorted(PROTOCOLS), help="write a plan for this machine instead"
    )
    parser.add_argument("--mode", default="", help="power mode of the plan that --make writes")
    parser.add_argument(
        "--board", type=Path, default=SYSTEM_ROOT, help="root folder of the board's /sys"
    )
    parser.add_argument(
        "--probe", choices=("cpu", "gpu"), help="print what there is to measure it with"
    )
    return parser


def _write_plan(path: Path, mode: str, profile: str) -> None:
    machine = identify()
    modes = choose_modes(mode, SYSTEM_ROOT, machine)
    if len(modes) != 1:
        raise UsageError("a plan has one power mode", fix="write one plan for each mode")
    write_document(path, make_plan(machine, modes[0], profile))


def _run(path: Path, runs: Path, root: Path) -> None:
    plan = read_document(path, KernelPlan)
    measurer = LocalMeasurer(meters=find_meters(root, plan.machine), root=root)
    outcome = run_plan(plan, runs, measurer=measurer, on_progress=_print_state)
    _print({"run": outcome.run_id, "measured": outcome.n_measured, "resumed": outcome.n_resumed})


def _print_state(state: SweepState) -> None:
    _print(state)


def _print(value: object) -> None:
    sys.stdout.buffer.write(encode_line(value))
    sys.stdout.flush()


def _fail(line: str) -> None:
    sys.stderr.write(f"mansard.microbench: {line}\n")


if __name__ == "__main__":
    give_stdout_to_data()
    sys.exit(main())
