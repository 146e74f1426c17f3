"""``mansard measure -- COMMAND``: a program's time and energy in each mode."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from mansard import api
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.data.overview import programs_table
from mansard.cli.data.summary import print_shortened, program_tables
from mansard.cli.measuring.option_groups import MachineGroup, ModeGroup, OutputGroup, ProgramGroup
from mansard.cli.wrapping import plain

_N_FOR_INTERVAL = 6  # runs below which there is no interval at 95 %


def measure_program(
    command: Sequence[str],
    modes: ModeGroup,
    machine: MachineGroup,
    program: ProgramGroup,
    output: OutputGroup,
) -> None:
    """Run a program in each mode and print its time and energy; raises the error of what failed."""
    request = api.ProgramRequest(
        command=tuple(command),
        name=program.name,
        metric=program.metric,
        variables=tuple(program.env or ()),
        mode=modes.mode,
        pick=modes.pick,
        profile=modes.profile,
        runs=modes.runs,
        board=machine.board,
        hosts=tuple(machine.host or ()),
        n_runs=program.repeat,
        is_again=program.again,
        stdout=2 if output.as_json else 1,
    )
    if program.metric is not None and os.isatty(request.stdout):
        note(
            "with --metric the output of the program goes through a pipe: the program has no "
            "terminal"
        )
    measured = api.measure_program(request, TerminalReporter())
    print_programs(measured, all_rows=output.all_rows, as_json=output.as_json)


def print_programs(result: api.ProgramResult, *, all_rows: bool, as_json: bool) -> None:
    """Print what was measured; raises the error of what was not."""
    if as_json:
        programs = [
            {"mode": one.manifest.mode_read_back, "run": one.run, "times": one.times}
            for one in result.measured
        ]
        print_json("measure-program", {"programs": programs})
    else:
        rows = [row for one in result.measured for row in one.times]
        short = [programs_table(rows)] if rows else []
        with contextlib.redirect_stdout(sys.stderr):
            print_shortened(program_tables(rows) if all_rows else short)
        for one in result.measured:
            _note_doubts(one)
    result.check()


def _note_doubts(one: api.MeasuredProgram) -> None:
    mode, whole = one.manifest.mode_read_back.name, one.times[0]
    for why in one.run.disturbances:
        note(f"{mode}: disturbed: {why}")
    n_throttled = one.run.conditions.n_throttle_events
    if n_throttled:
        times = "once" if n_throttled == 1 else f"{n_throttled} times"
        note(f"{mode}: throttled while it ran: {times}")
    lacking = [row for row in one.times if row.energy_j is None]
    if lacking:
        what = "" if lacking[0] is whole else f" of {lacking[0].workload}"
        n_more = len(lacking) - 1 if what else 0
        others = f" and {n_more} other{'s' * (n_more > 1)}" if n_more else ""
        note(f"{mode}: no energy{what}{others}: {lacking[0].unknown['energy_j']}")
    if one.run.stability == "unstable":
        interval = f"±{plain(api.relative(one.run.stability_interval))}"
        why = one.run.unknown.get("stability_interval", interval)
        more = max(_N_FOR_INTERVAL, 2 * whole.n_runs if whole.n_runs >= _N_FOR_INTERVAL else 0)
        note(f"{mode}: the time is not known well: {why}; --repeat {more} would help")
