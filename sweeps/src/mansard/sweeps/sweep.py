"""A sweep over the power modes of one board, or of several at once, for any kind of run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias

import msgspec

from mansard.containers.engine import connect
from mansard.containers.fleet import BoardWorker, run_fleet
from mansard.containers.host_process import host_controller
from mansard.containers.hosts import Host, read_hosts
from mansard.core.errors import (
    ContainerError,
    DeviceError,
    MansardError,
    MissingLibrary,
    UsageError,
)
from mansard.core.records import MachineIdentity, PowerMode, Processor
from mansard.device.controller import BoardController, LocalController
from mansard.device.identity import is_simulated
from mansard.device.system import SYSTEM_ROOT, board_root
from mansard.measuring.identity import check_label
from mansard.sweeps.modes import (
    Identity,
    Measured,
    ModePlan,
    describe_time,
    measure_modes,
    needs_setting,
    time_cap_s,
)
from mansard.sweeps.reporter import SILENT, BoardReporter, Reporter
from mansard.sweeps.targets import (
    BenchTarget,
    ContainerTarget,
    LocalTarget,
    StoppableTarget,
    WantedImage,
    check_host,
    container_target,
    controller_in_container,
    remedies_of,
    remote_target,
)


class SweepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Where to measure, and in which modes; the defaults are those of the commands."""

    mode: str | None = None  # as ``bench --mode`` takes it; None: the machine as it is
    pick: int | None = None  # number of modes to measure, spread over all
    profile: str = "quick"  # how many points and repetitions: brief, quick or full
    runs: Path = Path("runs")  # the folder that keeps the runs
    board: Path | None = None  # root folder of a board; None: this machine
    processor: Processor | None = None  # None: the GPU where there is one
    is_local: bool = False  # in this process, without a container
    wanted_image: WantedImage = WantedImage()
    hosts: tuple[str, ...] = ()  # boards elsewhere, instead of this machine
    hosts_file: Path | None = None  # TOML file that names boards
    label: str = ""  # of a build or commit, part of the run's identity
    is_again: bool = False  # also what was measured before: one more run beside the others
    variables: tuple[str, ...] = ()  # of the environment: part of the identity but of kernels
    needs_container: ClassVar[bool] = True  # on boards elsewhere

    def __post_init__(self) -> None:
        if isinstance(self.label, str) and self.label:  # a function of the façade checks types
            check_label(self.label)

    @property
    def identity(self) -> Identity:
        """What tells runs of one plan apart."""
        return Identity(self.label, self.is_again)


class PlannedMode(msgspec.Struct, frozen=True):
    """One mode of a sweep: its trials, those not measured yet, and each write that sets it."""

    mode: PowerMode
    trials: int | None  # None: not planned yet
    missing: int | None
    steps: tuple[str, ...]


class DryRun(msgspec.Struct, frozen=True):
    """What a sweep would do on one board. ``board``: its name; None: this machine."""

    board: str | None
    modes: tuple[PlannedMode, ...]
    duration_s: float | None  # longest time to measure what is missing; None: not planned yet
    summary: str  # how much is to be measured, in words


class Swept(msgspec.Struct, frozen=True):
    """The runs of a sweep, including those measured before, and what could not be measured.

    ``run_ids``: board by board, in the order of the plans.
    """

    run_ids: tuple[str, ...]
    failure: MansardError | None


# Returns the plans for a board in the given modes, in the order of the modes.
Planner: TypeAlias = Callable[[BenchTarget, Sequence[PowerMode], Reporter], list[ModePlan]]

# Opens a board elsewhere; the notes of its measurement go to the reporter.
OpenHost: TypeAlias = Callable[[Host, Reporter], AbstractContextManager[StoppableTarget]]

# Makes a target that measures in this process, from the board's root folder and controller.
MakeLocal: TypeAlias = Callable[[Path, BoardController], LocalTarget]


def sweep(
    request: SweepRequest,
    planner: Planner,
    reporter: Reporter = SILENT,
    *,
    make_local: MakeLocal | None = None,
    open_host: OpenHost | None = None,
) -> Swept:
    """Measure what ``planner`` plans and ``request.runs`` does not hold yet.

    Modes are set and locked, and the board is put back as it was. A mode that cannot be set is left
    out with a note, and of several boards one that fails does not stop the others: ``failure``
    names them. ``make_local``: makes the target of runs that only this process can measure;
    ``open_host``: opens a board elsewhere, by default one that measures in containers. Raises the
    MansardError that prevented every measurement.
    """
    if request.hosts:
        opening = open_host or partial(_open_remote, request)
        return _sweep_hosts(request, chosen_hosts(request), planner, opening, reporter)
    with _running(request.board), _opened(request, reporter, make_local) as (target, modes):
        return _sweep_board(target, modes, request, planner, reporter)


def _sweep_board(
    target: BenchTarget,
    modes: Sequence[PowerMode],
    request: SweepRequest,
    planner: Planner,
    reporter: Reporter,
) -> Swept:
    plans = planner(target, modes, reporter)
    measured = measure_modes(plans, target, request.runs, reporter)
    return Swept(measured.run_ids, _failure_of(measured, len(modes)))


def dry_run(
    request: SweepRequest, planner: Planner, reporter: Reporter = SILENT
) -> Iterator[DryRun]:
    """What a sweep would do, board by board; nothing is changed.

    Raises as ``sweep`` does; of several boards one that fails does not stop the others, and is
    raised after them.
    """
    if request.hosts:
        yield from _dry_run_hosts(request, partial(_describe_host, planner), reporter)
        return
    with _opened(request, reporter, is_dry_run=True) as (target, modes):
        yield _describe(None, planner(target, modes, reporter), target)


def dry_run_modes(request: SweepRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """Each write that sets the modes of a sweep, board by board; nothing is changed or planned.

    Raises as ``dry_run`` does for modes and boards.
    """
    if request.hosts:
        yield from _dry_run_hosts(request, _writes_of_host, reporter)
        return
    yield _writes(None, LocalController(board_root(request.board)), request, reporter)


# Says what a sweep would do on the board of a worker; the request has its modes.
_Describe: TypeAlias = Callable[[SweepRequest, BoardWorker, Reporter], DryRun]


def _dry_run_hosts(
    request: SweepRequest, describe: _Describe, reporter: Reporter
) -> Iterator[DryRun]:
    """All boards at once; those that fail are raised after the others."""

    def describe_board(worker: BoardWorker) -> DryRun:
        request_there = _with_modes_of(request, worker.host)
        return describe(request_there, worker, BoardReporter(worker.name, worker.send, reporter))

    hosts = chosen_hosts(request)
    fleet = run_fleet(hosts, describe_board, lambda message: message.payload())
    yield from fleet.results.values()
    fleet.check("listed", "lists")


def _describe_host(
    planner: Planner, request: SweepRequest, worker: BoardWorker, reporter: Reporter
) -> DryRun:
    with remote_target(worker.host, request.wanted_image, reporter) as target:
        worker.on_stop(target.stop)
        modes = _choose_modes(target.controller, request, reporter, is_dry_run=True)
        return _describe(worker.name, planner(target, modes, reporter), target)


def _writes_of_host(request: SweepRequest, worker: BoardWorker, reporter: Reporter) -> DryRun:
    host = worker.host
    with (
        remedies_of(host),
        (
            controller_in_container(host, request.wanted_image, reporter)
            if request.needs_container
            else host_controller(host)
        ) as controller,
    ):
        worker.on_stop(controller.end)
        return _writes(host.name, controller, request, reporter)


def _writes(
    board: str | None, controller: BoardController, request: SweepRequest, reporter: Reporter
) -> DryRun:
    modes = _choose_modes(controller, request, reporter, is_dry_run=True)
    steps = _steps(controller, modes)
    planned = tuple(
        PlannedMode(mode, None, None, lines) for mode, lines in zip(modes, steps, strict=True)
    )
    many = "1 mode" if len(planned) == 1 else f"{len(planned)} modes"
    after = "the duration is unknown before the first run; the board is restored afterwards"
    return DryRun(board, planned, None, f"{many}; {after}")


def _running(board: Path | None) -> AbstractContextManager[Path | None]:
    """The board switched on while it is measured, if it is a simulated one."""
    if not is_simulated(root := board_root(board)):
        return nullcontext()
    from mansard.simulator.daemon import switched_on

    return switched_on(root)


@contextmanager
def _opened(
    request: SweepRequest,
    reporter: Reporter,
    make_local: MakeLocal | None = None,
    *,
    is_dry_run: bool = False,
) -> Iterator[tuple[BenchTarget, tuple[PowerMode, ...]]]:
    """The board at hand and the modes to measure."""
    root = board_root(request.board)
    controller = LocalController(root)
    # A mode that does not exist is an error before an engine is asked, or an image built.
    modes = _choose_modes(controller, request, reporter, is_dry_run=is_dry_run)
    with (
        _open_target(controller, root, request, reporter, is_dry_run=is_dry_run)
        if make_local is None
        else nullcontext(make_local(root, controller))
    ) as target:
        yield target, modes


def _describe(board: str | None, plans: Sequence[ModePlan], target: BenchTarget) -> DryRun:
    modes = {mode_plan.plan.mode.name: mode_plan.plan.mode for mode_plan in plans}
    steps = _steps(target.controller, tuple(modes.values()))
    planned = []
    for (name, mode), lines in zip(modes.items(), steps, strict=True):
        in_mode = [plan for plan in plans if plan.plan.mode.name == name]
        n_trials = sum(len(plan.plan.trials) for plan in in_mode)
        n_missing = sum(plan.n_missing for plan in in_mode)
        planned.append(PlannedMode(mode, n_trials, n_missing, lines))
    return DryRun(board, tuple(planned), time_cap_s(plans), describe_time(plans))


def _steps(controller: BoardController, modes: Sequence[PowerMode]) -> list[tuple[str, ...]]:
    """Each write that sets each of ``modes``; none for a mode that needs no setting."""
    steps = iter(controller.planned_steps([mode for mode in modes if needs_setting(mode)]))
    return [next(steps) if needs_setting(mode) else () for mode in modes]


def _choose_modes(
    controller: BoardController,
    request: SweepRequest,
    reporter: Reporter,
    *,
    is_dry_run: bool = False,
) -> tuple[PowerMode, ...]:
    """The modes to measure; first undoes the mode that a killed run left behind."""
    if not is_dry_run:
        # Otherwise the mode left behind would count as the present one.
        for line in controller.put_back():
            reporter.note(line)
    return controller.choose_modes(request.mode, request.pick)


@contextmanager
def _open_target(
    controller: BoardController,
    root: Path,
    request: SweepRequest,
    reporter: Reporter,
    *,
    is_dry_run: bool = False,
) -> Iterator[BenchTarget]:
    """Where the board of ``controller`` is measured; raises if that cannot be opened.

    A Jetson is measured in a container unless the request says not to. A graphics card is
    measured in this process where CUDA's libraries are installed, in a container where they
    are not, and everything else in this process.
    """
    machine = controller.identify()
    target = LocalTarget(root, controller)
    if machine.is_simulated and request.processor == "gpu":
        from mansard.sweeps.simulated_gpu import StandInTarget

        yield StandInTarget(root, controller)
        return
    is_here = request.is_local or (is_dry_run and machine.is_simulated)
    if is_here or not _wants_container(request, machine, target):
        yield target
        return
    with container_target(controller, root, request.wanted_image, reporter) as inside:
        yield inside


def _wants_container(request: SweepRequest, machine: MachineIdentity, target: BenchTarget) -> bool:
    if machine.kind == "jetson" or request.wanted_image.name is not None:
        return True
    if machine.kind != "gpu" or request.processor == "cpu" or target.probe("gpu").gpu is not None:
        return False
    try:
        with connect(request.wanted_image.engine):
            return True
    except (ContainerError, MissingLibrary):
        return False


_MAX_NAMED = 8


def _failure_of(measured: Measured, n_modes: int) -> DeviceError | None:
    """The error that names the modes which could not be measured."""
    if not measured.failed:
        return None
    names = ", ".join(measured.failed[:_MAX_NAMED])
    if len(measured.failed) > _MAX_NAMED:
        names += f" and {len(measured.failed) - _MAX_NAMED} more"
    return DeviceError(
        f"{len(measured.failed)} of {n_modes} power modes could not be measured: {names}",
        fix="the notes above say why",
    )


def chosen_hosts(request: SweepRequest) -> tuple[Host, ...]:
    """The boards that ``request`` names; raises UsageError, also for options of this machine."""
    is_elsewhere = board_root(request.board) != SYSTEM_ROOT
    if request.is_local or is_elsewhere or request.wanted_image.engine:
        raise UsageError(
            "--local, --board and --container-engine are about this machine, --host about others",
            fix="leave one of them out; hosts.toml names a simulated board's root",
        )
    return read_hosts(request.hosts, request.hosts_file)


def _with_modes_of(request: SweepRequest, host: Host) -> SweepRequest:
    """``request`` in the modes that the hosts file has for ``host``, where it asks for none."""
    if request.mode is not None or host.modes is None:
        return request
    return msgspec.structs.replace(request, mode=host.modes)


def reachable_hosts(request: SweepRequest) -> tuple[Host, ...]:
    """``chosen_hosts``; raises the error of the first where none of them answers."""
    hosts, failure = chosen_hosts(request), None
    for host in hosts:
        try:
            check_host(host)
        except MansardError as error:
            failure = failure or error
        else:
            return hosts
    if failure is not None:
        raise failure
    return hosts


def _open_remote(
    request: SweepRequest, host: Host, reporter: Reporter
) -> AbstractContextManager[ContainerTarget]:
    return remote_target(host, request.wanted_image, reporter)


def _sweep_hosts(
    request: SweepRequest,
    hosts: Sequence[Host],
    planner: Planner,
    open_host: OpenHost,
    reporter: Reporter,
) -> Swept:
    """The same sweep on boards elsewhere, all at once, into one folder of runs."""
    fleet = run_fleet(
        hosts,
        partial(_sweep_host, request, planner, open_host, reporter),
        lambda message: message.payload(),
    )
    run_ids = tuple(
        dict.fromkeys(run_id for swept in fleet.results.values() for run_id in swept.run_ids)
    )
    try:
        fleet.check()
    except MansardError as error:
        return Swept(run_ids, error)
    return Swept(run_ids, None)


def _sweep_host(
    request: SweepRequest,
    planner: Planner,
    open_host: OpenHost,
    reporter: Reporter,
    worker: BoardWorker,
) -> Swept:
    """One board, in its worker's thread; raises DeviceError if one of its modes failed."""
    reporter = BoardReporter(worker.name, worker.send, reporter)
    with open_host(worker.host, reporter) as target:
        worker.on_stop(target.stop)
        worker.claim(target.controller.identify())
        there = _with_modes_of(request, worker.host)
        modes = _choose_modes(target.controller, there, reporter)
        swept = _sweep_board(target, modes, request, _naming(planner, worker.name), reporter)
    if swept.failure is not None:
        raise swept.failure
    return swept


def _naming(planner: Planner, name: str) -> Planner:
    """``planner`` whose plans have the board's name, without that of the user who logs in."""
    host = name.rpartition("@")[2]

    def plan(target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter) -> list[ModePlan]:
        replace = msgspec.structs.replace
        return [
            replace(planned, plan=replace(planned.plan, host=host))
            for planned in planner(target, modes, reporter)
        ]

    return plan
