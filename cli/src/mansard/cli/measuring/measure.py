"""``mansard measure``: networks on an engine, a program of the user's or a server, in each mode.

One command is four functions. Each has groups of options as parameters; the command refuses those
that its function does not take. The one of a program is here, ``networks`` has the others.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from mansard import api
from mansard.analytics.data.quantities import counted, seconds
from mansard.api import results
from mansard.cli.console import TerminalReporter, note, print_json
from mansard.cli.data.network_runs import device_cells
from mansard.cli.data.overview import by_device, programs_table
from mansard.cli.data.summary import print_shortened, program_tables
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.help import HelpfulCommand
from mansard.cli.measuring.networks import measure_layers, measure_networks
from mansard.cli.measuring.option_groups import (
    GROUPS,
    IdentityGroup,
    MachineGroup,
    ModeGroup,
    NetworkGroup,
    OutputGroup,
    PartGroup,
    PlaceGroup,
    ProgramGroup,
    ServerGroup,
    group_of,
    grouped_signature,
)
from mansard.cli.measuring.servers import measure_server
from mansard.cli.terminal import plain
from mansard.core.errors import UsageError

_N_FOR_INTERVAL = 6  # runs below which there is no interval at 95 %


def measure_program(
    command: Sequence[str],
    modes: ModeGroup,
    machine: MachineGroup,
    identity: IdentityGroup,
    program: ProgramGroup,
    output: OutputGroup,
) -> None:
    """Run a program in each mode and print its time and energy; raises the error of what failed."""
    request = api.ProgramRequest(
        command=tuple(command),
        name=identity.name,
        metric=program.metric,
        label=modes.label,
        variables=tuple(modes.env or ()),
        depends=tuple(identity.depends or ()),
        mode=modes.mode,
        pick=modes.pick,
        profile=modes.profile,
        runs=modes.runs,
        board=machine.board,
        hosts=tuple(machine.host or ()),
        hosts_file=machine.hosts_file,
        remote_folder=identity.remote_folder,
        n_runs=identity.repeat,
        is_again=modes.again,
        stdout=2 if output.as_json else 1,
    )
    if modes.dry_run:
        print_dry_runs(api.dry_run(request, TerminalReporter()), as_json=output.as_json)
        return
    if program.metric is not None and os.isatty(request.stdout):
        note("with --metric the program writes to a pipe, not a terminal")
    measured = api.measure_program(request, TerminalReporter())
    print_programs(measured, all_rows=output.all_rows, as_json=output.as_json)


def print_programs(result: results.ProgramResult, *, all_rows: bool, as_json: bool) -> None:
    """Print what was measured; raises the error of what was not."""
    if as_json:
        programs = [
            {"mode": one.manifest.mode_read_back, "run": one.run, "times": one.times}
            for one in result.measured
        ]
        print_json("measure-program", {"programs": programs})
    else:
        rows = [row for one in result.measured for row in one.times]
        short = by_device(rows, programs_table)
        with contextlib.redirect_stdout(sys.stderr):
            print_shortened(program_tables(rows) if all_rows else short)
        names = device_cells(rows)
        for one in result.measured:
            name = names[one.times[0].device]
            _note_doubts(one, name and f"{name}, ")
    result.check()


def _note_doubts(one: results.MeasuredProgram, where: str) -> None:
    mode, whole = f"{where}{one.manifest.mode_read_back.name}", one.times[0]
    for why in one.run.disturbances:
        note(f"{mode}: disturbed: {why}")
    n_throttled = one.run.conditions.n_throttle_events
    if n_throttled:
        times = "once" if n_throttled == 1 else f"{n_throttled} times"
        note(f"{mode}: throttled {times}")
    lacking = [row for row in one.times if row.energy_j is None and row.time_s is not None]
    if lacking:
        what = "" if lacking[0] is whole else f" of {lacking[0].workload}"
        n_more = len(lacking) - 1 if what else 0
        others = f" and {counted(n_more, 'other')}" if n_more else ""
        note(f"{mode}: energy unknown{what}{others}: {lacking[0].unknown['energy_j']}")
    if one.run.stability == "unstable":
        interval = seconds(whole.time_s, whole.low_s, whole.high_s, advise=False)
        why = one.run.unknown.get("stability_interval", plain(interval))
        more = max(_N_FOR_INTERVAL, 2 * whole.n_runs if whole.n_runs >= _N_FOR_INTERVAL else 0)
        note(f"{mode}: the time is uncertain: {why}; use --repeat {more}")


_COMMAND = "mansard command"  # where a context keeps the words after ``--``


class MeasureCommand(HelpfulCommand):
    """All words after the first ``--`` are the user's command, whatever they look like."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take them away before options are looked for."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


COMMAND_CLASS = MeasureCommand  # app.py builds the command with it


def measure(
    context: typer.Context,
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="ONNX files, folders of them, or names of shipped networks; or -- COMMAND, a "
            "program."
        ),
    ] = None,
    **options: Any,
) -> None:
    """Measure networks, a program or a server: measure MODEL… | -- COMMAND… | --server URL

    Networks: latency in a loop and of single calls, energy, layers.

    Programs: time, CPU time, memory and energy, child processes included. Output and exit code
    are the program's; results go to stderr. With --json results go to stdout and the program's
    output to stderr.

    Servers of language models: time to the first token and between tokens, tokens/s, energy of
    both phases.

    Each mode is measured until the time is stable; then the board is restored.
    """
    command = context.meta.get(_COMMAND, ())
    is_server = options["server"] is not None or options["start"] is not None
    if bool(command) + bool(models) + is_server != 1:
        raise UsageError(
            "give networks or a command, not both"
            if not is_server
            else "--server excludes networks and a command",
            fix="mansard measure resnet50, or mansard measure -- python3 my_program.py, or mansard "
            "measure --server http://localhost:8000",
        )
    function: Callable[..., None] = measure_networks
    what = "a network"
    if command:
        function, what = measure_program, "a program"
    elif is_server:
        function, what = measure_server, "a server"
    elif options["each_layer"] is not None:
        function = measure_layers
    hints = get_type_hints(function)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    _check_options(context, _names(groups.values()), what)
    values = {name: group_of(group, options) for name, group in groups.items()}
    function(command or tuple(models or ()), **values)


# Typer asks inspect for it.
measure.__signature__ = grouped_signature(measure, GROUPS)  # type: ignore[attr-defined]


def _names(groups: Iterable[Any]) -> list[str]:
    return [field.name for group in groups for field in fields(group)]


# Whose options the groups are, the most special first, and what to do about one that is refused.
_OWNERS = {
    ServerGroup: "servers",
    ProgramGroup: "programs",
    IdentityGroup: "programs and servers",
    PartGroup: "layers that are run alone",
    NetworkGroup: "networks",
    PlaceGroup: "networks",
}


def _check_options(context: typer.Context, allowed: Iterable[str], what: str) -> None:
    """Raises UsageError for an option that was given and is not ``allowed`` for ``what``."""
    given = {
        str(parameter.name): parameter.opts[0]
        for parameter in context.command.params
        if (source := context.get_parameter_source(str(parameter.name)))
        and source.name == "COMMANDLINE"
    }
    for group, owner in _OWNERS.items():
        for name in _names([group]):
            if name in given and name not in allowed:
                is_part = group is PartGroup and what == "a network"
                rest = "" if is_part else f", not for {what}"
                raise UsageError(
                    f"{given[name]} is an option for {owner}{rest}",
                    fix="add --each-layer all" if is_part else "leave it out",
                )
