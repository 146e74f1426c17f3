"""A bench from end to end: modes, networks, measurements, report; on one board or on several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.boards import board_root
from mansard.api.data import Report, report
from mansard.api.measurements import (
    Measured,
    ModePlan,
    describe_time,
    measure_modes,
    needs_setting,
    plan_modes,
    time_cap_s,
)
from mansard.api.reporter import SILENT, LineProgress, ProgressDisplay, Reporter
from mansard.api.scores import score_networks
from mansard.api.targets import (
    BenchTarget,
    LocalTarget,
    WantedImage,
    container_target,
    find_processor,
    remote_target,
)
from mansard.core.errors import ContainerError, DeviceError, MansardError, UsageError
from mansard.core.files import make_folder
from mansard.core.jsonl import write_rows
from mansard.core.records import ModelScore, PowerMode, Processor

if TYPE_CHECKING:
    from mansard.containers.fleet import Worker
    from mansard.containers.hosts import Host
    from mansard.core.records import MachineIdentity
    from mansard.device.controller.controller import BoardController


class BenchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a bench is asked for; the defaults are those of the command."""

    models: tuple[Path, ...] = ()  # ONNX files to score; none: the zoo
    mode: str | None = None  # as ``bench --mode`` takes it; None: the machine as it is
    pick: int | None = None  # measure only so many modes, spread over all
    profile: str = "quick"  # how many points and repetitions: brief, quick or full
    runs: Path = Path("runs")  # the folder that keeps the runs
    batches: tuple[int, ...] = (1, 8)  # at which networks are scored
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)  # sizes of named dimensions
    board: Path | None = None  # root folder of a board; None: this machine
    processor: Processor | None = None  # None: the GPU where there is one
    is_local: bool = False  # in this process, without a container
    wanted_image: WantedImage = WantedImage()
    hosts: tuple[str, ...] = ()  # boards elsewhere, instead of this machine
    hosts_file: Path | None = None  # TOML file that names boards


class BenchResult(msgspec.Struct, frozen=True):
    """The report of what was measured, and what could not be measured.

    ``report`` is None where nothing was measured at all.
    """

    report: Report | None
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one: it names the modes or the boards, and why."""
        if self.failure is not None:
            raise self.failure


class PlannedMode(msgspec.Struct, frozen=True):
    """One mode of a bench: its trials, those not measured yet, and each write that sets it."""

    mode: PowerMode
    trials: int
    missing: int
    steps: tuple[str, ...]


class DryRun(msgspec.Struct, frozen=True):
    """What a bench would do on one board. ``board``: its name; None: this machine."""

    board: str | None
    modes: tuple[PlannedMode, ...]
    duration_s: float  # that measuring what is missing takes at most
    summary: str  # how much is to be measured, in words


def bench(request: BenchRequest, reporter: Reporter = SILENT) -> BenchResult:
    """Measure, score the networks, and write the report into the folder of runs.

    What was measured before is not measured again; an interrupted bench resumes. Power modes
    are set, locked, and put back as they were found. A mode that cannot be set is left out with
    a note, and a board of several that fails does not stop the others: the result's ``failure``
    names them. Raises any MansardError that keeps everything from being measured.
    """
    if request.hosts:
        return _bench_hosts(request, _chosen_hosts(request), reporter)
    from mansard.device.controller.controller import LocalController

    root = board_root(request.board)
    controller = LocalController(root)
    # A mode that does not exist is an error before an engine is asked, or an image built.
    modes = _choose_modes(controller, request, reporter)
    with _open_target(controller, root, request, reporter) as target:
        plans = _plan(target, modes, request, reporter)
        _score(request, reporter)
        measured = measure_modes(plans, target, request.runs, reporter)
    written = None
    if measured.run_ids or not measured.failed:
        written = _report(request, measured.run_ids, reporter)
    return BenchResult(written, _failure(measured, len(plans)))


def dry_run(request: BenchRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """What a bench would do on each board, one after the other; nothing is touched.

    Raises as ``bench`` does.
    """
    if not request.hosts:
        from mansard.device.controller.controller import LocalController

        root = board_root(request.board)
        controller = LocalController(root)
        modes = _choose_modes(controller, request, reporter, is_dry_run=True)
        with _open_target(controller, root, request, reporter, is_dry_run=True) as target:
            yield _describe(None, _plan(target, modes, request, reporter), target)
        return
    for host in _chosen_hosts(request):
        reporter.note(f"board {host.name}:")
        with remote_target(host, request.wanted_image, reporter) as target:
            modes = _choose_modes(target.controller, request, reporter, is_dry_run=True)
            yield _describe(host.name, _plan(target, modes, request, reporter), target)


def _describe(board: str | None, plans: Sequence[ModePlan], target: BenchTarget) -> DryRun:
    modes = [each.plan.mode for each in plans if needs_setting(each.plan.mode)]
    steps = iter(target.controller.planned_steps(modes))
    planned = tuple(
        PlannedMode(
            each.plan.mode,
            len(each.plan.trials),
            each.n_missing,
            next(steps) if needs_setting(each.plan.mode) else (),
        )
        for each in plans
    )
    return DryRun(board, planned, time_cap_s(plans), describe_time(plans))


def _choose_modes(
    controller: BoardController,
    request: BenchRequest,
    reporter: Reporter,
    *,
    is_dry_run: bool = False,
) -> tuple[PowerMode, ...]:
    """The modes to measure; a run that was cut off on the board is put back first."""
    if not is_dry_run:
        # What it left behind would be taken for the present state.
        for line in controller.put_back():
            reporter.note(line)
    return controller.choose_modes(request.mode, request.pick)


@contextmanager
def _open_target(
    controller: BoardController,
    root: Path,
    request: BenchRequest,
    reporter: Reporter,
    *,
    is_dry_run: bool = False,
) -> Iterator[BenchTarget]:
    """Where the board of ``controller`` is measured; raises what keeps it from being measured.

    A Jetson is measured in a container unless the request says not to. A graphics card is
    measured in this process where CUDA's libraries are installed, in a container where they
    are not, and everything else in this process.
    """
    target = LocalTarget(root, controller)
    machine = controller.identify()
    is_here = request.is_local or (is_dry_run and machine.is_simulated)
    if is_here or not _wants_container(request, machine, target):
        yield target
        return
    with container_target(controller, root, request.wanted_image, reporter) as inside:
        yield inside


def _wants_container(request: BenchRequest, machine: MachineIdentity, target: BenchTarget) -> bool:
    if machine.kind == "jetson" or request.wanted_image.name is not None:
        return True
    if machine.kind != "gpu" or request.processor == "cpu" or target.probe("gpu").gpu is not None:
        return False
    from mansard.containers.engine import connect

    try:
        with connect(request.wanted_image.engine):
            return True
    except ContainerError:
        return False


def _plan(
    target: BenchTarget, modes: tuple[PowerMode, ...], request: BenchRequest, reporter: Reporter
) -> list[ModePlan]:
    """What is to be measured on one board."""
    machine = target.controller.identify()
    # Core counts are modes of the CPU alone.
    of_cpu = all(mode.kind == "cores" for mode in modes)
    processor = request.processor or ("cpu" if of_cpu else None)
    found = find_processor(target, machine, processor, reporter)
    return plan_modes(machine, modes, request.profile, request.runs, found)


def _score(request: BenchRequest, reporter: Reporter) -> None:
    """Score the networks: what is wrong with them is found before minutes of measuring."""
    scores = score_networks(request.models, request.batches, request.dims, reporter)
    make_folder(request.runs)
    write_rows(request.runs / "scores.jsonl", ModelScore, scores, request.runs)


def _report(request: BenchRequest, run_ids: frozenset[str], reporter: Reporter) -> Report:
    return report([str(request.runs)], run_ids=run_ids, reporter=reporter)


_MAX_NAMED = 8


def _failure(measured: Measured, n_modes: int) -> DeviceError | None:
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


def _chosen_hosts(request: BenchRequest) -> tuple[Host, ...]:
    """The boards that ``request`` names; raises UsageError, also for options of this machine."""
    from mansard.containers.hosts import read_hosts
    from mansard.device.system import SYSTEM_ROOT

    is_elsewhere = board_root(request.board) != SYSTEM_ROOT
    if request.is_local or is_elsewhere or request.wanted_image.engine:
        raise UsageError(
            "--local, --board and --engine are about this machine, --host about others",
            fix="leave one of them out; hosts.toml names a simulated board's root",
        )
    return read_hosts(request.hosts, request.hosts_file)


def _bench_hosts(request: BenchRequest, hosts: Sequence[Host], reporter: Reporter) -> BenchResult:
    """The same bench on boards elsewhere, all at once, into one folder of runs."""
    from mansard.containers.fleet import run_fleet

    _score(request, reporter)
    fleet = run_fleet(
        hosts, partial(_bench_host, request, reporter), lambda message: message.payload()
    )
    written = None
    if fleet.results:
        run_ids = [measured.run_ids for measured in fleet.results.values()]
        written = _report(request, frozenset().union(*run_ids), reporter)
    try:
        fleet.check()
    except MansardError as error:
        return BenchResult(written, error)
    return BenchResult(written, None)


def _bench_host(request: BenchRequest, reporter: Reporter, worker: Worker) -> Measured:
    """One board, in its worker's thread; raises DeviceError if one of its modes failed."""
    from mansard.containers.launch import stop_containers

    reporter = _WorkerReporter(worker, reporter)
    with remote_target(worker.host, request.wanted_image, reporter) as target:
        worker.on_stop(target.stop)
        worker.claim(target.controller.identify())
        worker.on_stop(partial(stop_containers, target.address))
        modes = _choose_modes(target.controller, request, reporter)
        plans = _plan(target, modes, request, reporter)
        measured = measure_modes(plans, target, request.runs, reporter)
    failure = _failure(measured, len(plans))
    if failure is not None:
        raise failure
    return measured


class _WorkerReporter:
    """The reporter of one board in its worker's thread; the main thread makes the real calls.

    Progress is lines: bars of several boards would write over one another. Every method raises
    KeyboardInterrupt once the fleet is to stop.
    """

    def __init__(self, worker: Worker, reporter: Reporter) -> None:
        self._worker = worker
        self._reporter = reporter

    def note(self, line: str) -> None:
        """Hand on a note, the board's name first."""
        self._worker.send(partial(self._reporter.note, f"{self._worker.name}: {line}"))

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        """Hand on the progress."""
        lines = LineProgress(f"{self._worker.name}: {title}", self._reporter.note)
        yield _WorkerProgress(self._worker, lines)

    def ask(self, question: str) -> bool:
        """Yes: several boards cannot ask at once; what they download is noted."""
        del question
        return True


class _WorkerProgress:
    def __init__(self, worker: Worker, lines: LineProgress) -> None:
        self._worker = worker
        self._lines = lines

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        self._worker.send(partial(self._lines.update, n_done, n_total, remaining_s, now))
