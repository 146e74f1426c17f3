"""A program of the user's, measured in one power mode after the other; the board is put back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec

from mansard.containers.hosts import Host
from mansard.core.errors import UsageError
from mansard.core.text import first_of
from mansard.core.version import VERSION
from mansard.device.meters.finding import find_meters
from mansard.inference.hosted import DescribedProgram, HostedProgram
from mansard.inference.programs.dependencies import check_dependencies, shown_path
from mansard.inference.programs.execution import find_input, is_read_once
from mansard.inference.programs.metric import compile_metric
from mansard.inference.programs.plan import (
    ProgramPlan,
    ProgramTrial,
    hash_program,
    make_program_trial,
    program_protocol,
)
from mansard.inference.programs.trial import PROGRAMS, Passing, program_kind
from mansard.inference.programs.windows import VARIABLE
from mansard.measuring.identity import changed_variables, unset_notes
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.plan import cpus_of
from mansard.measuring.protocol import find_protocol
from mansard.sweeps.host_targets import (
    FILES_CHANGED,
    HostOutput,
    HostTarget,
    check_input,
    host_target,
    refuse_folder,
)
from mansard.sweeps.modes import ModePlan, plan_run
from mansard.sweeps.reporter import SILENT, ProgressDisplay, Reporter
from mansard.sweeps.rows import rows_of
from mansard.sweeps.sweep import SweepRequest, Swept, chosen_hosts, sweep
from mansard.sweeps.targets import BenchTarget, LocalTarget

if TYPE_CHECKING:
    from mansard.core.records import MachineIdentity, PowerMode
    from mansard.device.controller import BoardController
    from mansard.measuring.events import Measurer

MOST_RUNS = 100_000
_MOST_NAMED = 4  # variables
_HOW_TO_TELL_APART = "; a variable or file that changes it becomes part of it by --env or --depends"


class ProgramRequest(SweepRequest, frozen=True, kw_only=True):
    """Which program is to be measured, and how; the defaults are those of the command."""

    command: tuple[str, ...]
    name: str | None = None  # what it is called; None: its command
    metric: str | None = None  # regular expression with one group: a number that it prints
    n_runs: int | None = None  # in each mode; None: until its time is known
    depends: tuple[Path, ...] = ()  # files and folders whose content is part of its identity
    stdout: int = 1  # descriptor that the program's standard output goes to
    remote_folder: str | None = None  # on hosts: where it runs; None: the user's home there
    needs_container: ClassVar[bool] = False


def run_program(request: ProgramRequest, reporter: Reporter = SILENT) -> Swept:
    """Run a program in each mode as often as it takes; its runs in the order of the modes.

    It needs msgspec alone. Raises ProgramFailed with the program's own exit code where it fails:
    the modes before are kept, and the board is put back; UsageError, and what keeps a board from
    being measured.
    """
    if VARIABLE in os.environ:
        raise UsageError(
            "this runs inside a program that is being measured",
            fix="measure one of the two; mansard.api.window marks a part of a program",
        )
    if request.metric is not None:
        compile_metric(request.metric)
    if request.n_runs is not None and not 1 <= request.n_runs <= MOST_RUNS:
        raise UsageError(f"--repeat is from 1 to {MOST_RUNS}", fix="leave it out")
    beside_output = _BesideOutput(reporter)
    if request.hosts:
        return _run_on_hosts(request, beside_output)
    refuse_folder(request.remote_folder)
    check_dependencies(request.depends, request.runs)
    for line in unset_notes(request.variables):
        reporter.note(line)
    trial = make_program_trial(
        request.command, request.name, request.metric, request.variables, request.depends
    )
    passing = Passing(reporter.note, request.stdout, request.command, find_input())
    swept = sweep(
        request,
        partial(_plan_modes, lambda _: trial, request, beside_output),
        beside_output,
        make_local=partial(_ProgramTarget, passing),
    )
    if hash_program(request.command, trial.environment, request.depends) != trial.program_hash:
        reporter.note(FILES_CHANGED)
    return swept


def _run_on_hosts(request: ProgramRequest, beside_output: _BesideOutput) -> Swept:
    """The same on boards elsewhere, which have the program and the files that it names."""
    check_input(beside_output)
    has_several = len(chosen_hosts(request)) > 1
    hosted = HostedProgram(
        command=request.command,
        name=request.name,
        metric=request.metric,
        variables=request.variables,
        depends=tuple(map(str, request.depends)),
        folder=request.remote_folder,
    )

    def open_host(host: Host, reporter: Reporter) -> AbstractContextManager[HostTarget]:
        output = HostOutput(f"{host.name}: " if has_several else "", request.stdout)
        return host_target(host, hosted, request, reporter, output)

    planner = partial(_plan_modes, _trial_there, request, beside_output)
    return sweep(request, planner, beside_output, open_host=open_host)


def _trial_there(target: BenchTarget) -> ProgramTrial:
    assert isinstance(target, HostTarget)  # noqa: S101 - what ``open_host`` opens
    assert isinstance(target.described, DescribedProgram)  # noqa: S101 - as was asked for
    return target.described.trial


def _plan_modes(
    find_trial: Callable[[BenchTarget], ProgramTrial],
    request: ProgramRequest,
    beside_output: _BesideOutput,
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
) -> list[ModePlan]:
    beside_output.has_several_modes = len(modes) > 1
    machine, trial = target.controller.identify(), find_trial(target)
    if request.hosts:
        for line in unset_notes(request.variables, trial.environment):
            reporter.note(line)
    plans = [_plan(trial, request, machine, mode) for mode in modes]
    if (
        not request.hosts
        and is_read_once()
        and sum(plan.n_missing for plan in plans) * (request.n_runs or 2) > 1
    ):
        reporter.note(
            "standard input is a pipe: only the first run can read it; use a file (< FILE) or "
            "--repeat 1"
        )
    return plans


def _plan(
    trial: ProgramTrial, request: ProgramRequest, machine: MachineIdentity, mode: PowerMode
) -> ModePlan:
    find_protocol(request.profile)  # an unknown one is an error
    plan = ProgramPlan(
        profile=request.profile,  # type: ignore[arg-type]  # checked above
        machine=machine,
        processor="cpu",
        gpu=None,
        mode=mode,
        cpus=cpus_of(machine, mode),
        trials=(trial,),
        protocol=program_protocol(request.profile, request.n_runs),  # type: ignore[arg-type]
        seed=0,
        versions={"mansard": VERSION},
        depends=tuple(shown_path(path) for path in request.depends),
        unknown={"gpu": "not asked: what opens a GPU keeps it awake while a program is metered"},
    )
    planned = plan_run(
        plan, request.runs, request.identity, subject=trial.workload, is_bounded=False
    )
    differences = _HOW_TO_TELL_APART  # the environment of another host is not known here
    if not request.hosts:
        differences = _differences(planned, trial, request.runs)
    how_to_repeat = planned.how_to_repeat + differences
    return msgspec.structs.replace(planned, how_to_repeat=how_to_repeat)


def _differences(planned: ModePlan, trial: ProgramTrial, runs: Path) -> str:
    """What changed since the program was measured without being part of its identity."""
    if planned.missing:
        return ""
    for _, row in rows_of(runs, [planned.plan.run_id], PROGRAMS):
        names = changed_variables(row.surroundings, trial.environment)
        if names:
            verb, becomes = ("has", "is") if len(names) == 1 else ("have", "are")
            return (
                f"; {first_of(names, _MOST_NAMED)} {verb} changed since, and {becomes} part of it "
                "with --env NAME"
            )
    return _HOW_TO_TELL_APART


class _ProgramTarget(LocalTarget):
    """This machine, with a program's streams passed on and its notes passed too."""

    def __init__(self, passing: Passing, root: Path, controller: BoardController) -> None:
        super().__init__(root, controller)
        self._passing = passing

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of programs with this machine's meters."""
        kind = program_kind(self._passing)
        meters = find_meters(self._root, self.controller.identify())
        return LocalMeasurer(meters=meters, root=self._root, kind=kind, files=files)


class _BesideOutput:
    """A reporter beside a program that has the terminal: a note for each mode, and no bar."""

    has_several_modes = False  # else there is nothing to tell apart

    def __init__(self, reporter: Reporter) -> None:
        self.note, self.ask = reporter.note, reporter.ask

    @contextlib.contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """Note the title when the program starts, where there are several modes."""
        yield _Titled(title, self.note if self.has_several_modes else SILENT.note)


class _Titled:
    def __init__(self, title: str, note: Callable[[str], None]) -> None:
        self._title, self._note = title, note

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        """Note the title, before the program runs."""
        del remaining_s, now
        if n_done < n_total:
            self._note(self._title)
