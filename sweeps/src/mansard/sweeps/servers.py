"""A server of a language model, measured in one power mode after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from mansard.containers.hosts import Host
from mansard.core.errors import UsageError
from mansard.core.version import VERSION
from mansard.device.meters.finding import find_meters
from mansard.inference.hosted import DescribedServer, HostedServer
from mansard.inference.programs.dependencies import check_dependencies, shown_path
from mansard.inference.programs.plan import program_protocol
from mansard.inference.servers.connection import KEY_VARIABLE, parse_address
from mansard.inference.servers.opening import identified
from mansard.inference.servers.plan import (
    GenerationPlan,
    GenerationTrial,
    Lengths,
    Serving,
    check_lengths,
    parse_start,
    plan_trials,
)
from mansard.inference.servers.trial import generation_kind
from mansard.measuring.identity import unset_notes
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.plan import cpus_of
from mansard.measuring.protocol import find_protocol
from mansard.sweeps.host_targets import HostOutput, HostTarget, host_target, refuse_folder
from mansard.sweeps.modes import ModePlan, plan_run
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import SweepRequest, Swept, sweep
from mansard.sweeps.targets import BenchTarget, LocalTarget

if TYPE_CHECKING:
    from mansard.core.records import MachineIdentity, PowerMode
    from mansard.device.controller import BoardController
    from mansard.measuring.events import Measurer


class ServerRequest(SweepRequest, frozen=True, kw_only=True):
    """Which server is to be measured, and how; the defaults are those of the command."""

    server: str | None = None  # its address; None: a free port of this machine, with ``start``
    start: str | None = None  # the command that starts it in each mode; None: it runs
    model: str | None = None  # None: its only one
    prompts: tuple[int, ...] = (128, 512, 2048)  # tokens
    generates: tuple[int, ...] = (128,)
    concurrencies: tuple[int, ...] = (1,)
    name: str | None = None  # what the model is called in tables; None: by the model
    depends: tuple[Path, ...] = ()  # files and folders that are part of what ``start`` is
    n_rounds: int | None = None  # that count; None: until their times are known
    remote_folder: str | None = None  # on hosts: where ``start`` runs; None: the user's home there
    needs_container: ClassVar[bool] = False


def sweep_server(request: ServerRequest, reporter: Reporter = SILENT) -> Swept:
    """Measure a server in each mode; raises UsageError, MeasurementError.

    Where a request fails, what was measured before is kept, and the board is put back.
    """
    find_protocol(request.profile)  # an unknown one is an error
    if request.depends and request.start is None:
        raise UsageError(
            "--depends is about the command of --start, and this server runs already",
            fix="distinguish its builds with --label",
        )
    lengths = Lengths(request.prompts, request.generates, request.concurrencies)
    check_lengths(lengths)
    serving = _serving(request, lengths)
    if request.hosts:
        return _sweep_hosts(serving, lengths, request, reporter)
    refuse_folder(request.remote_folder)
    check_dependencies(request.depends, request.runs)
    for line in unset_notes(request.variables):
        reporter.note(line)
    serving = identified(serving)
    trials = plan_trials(serving, lengths)
    return sweep(
        request,
        partial(_plan_modes, lambda _: trials, request),
        reporter,
        make_local=partial(_ServerTarget, serving, reporter),
    )


def _serving(request: ServerRequest, lengths: Lengths) -> Serving:
    """The server that the request names."""
    if request.server is None and request.start is None:
        raise UsageError("no server is named", fix="--server http://localhost:8000")
    address = None if request.server is None else parse_address(request.server)
    return Serving(
        command=() if request.start is None else parse_start(request.start, address),
        folder=str(Path.cwd()),
        address=address,
        model=request.model,
        name=request.name,
        context_tokens=lengths.context_tokens,
        variables=request.variables,
        depends=request.depends,
    )


def _sweep_hosts(
    serving: Serving, lengths: Lengths, request: ServerRequest, reporter: Reporter
) -> Swept:
    """The same on boards elsewhere: each starts the server, or reaches it by its address."""
    hosted = HostedServer(
        serving=serving,
        lengths=lengths,
        folder=request.remote_folder,
        key=os.environ.get(KEY_VARIABLE),
    )

    def open_host(host: Host, reporter: Reporter) -> AbstractContextManager[HostTarget]:
        return host_target(host, hosted, request, reporter, HostOutput())

    planner = partial(_plan_modes, _trials_there, request)
    return sweep(request, planner, reporter, open_host=open_host)


def _trials_there(target: BenchTarget) -> tuple[GenerationTrial, ...]:
    assert isinstance(target, HostTarget)  # noqa: S101 - what ``open_host`` opens
    assert isinstance(target.described, DescribedServer)  # noqa: S101 - as was asked for
    return target.described.trials


def _plan_modes(
    find_trials: Callable[[BenchTarget], tuple[GenerationTrial, ...]],
    request: ServerRequest,
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
) -> list[ModePlan]:
    del reporter
    machine, trials = target.controller.identify(), find_trials(target)
    return [_plan(trials, request, machine, mode) for mode in modes]


def _plan(
    trials: tuple[GenerationTrial, ...],
    request: ServerRequest,
    machine: MachineIdentity,
    mode: PowerMode,
) -> ModePlan:
    plan = GenerationPlan(
        profile=request.profile,  # type: ignore[arg-type]  # checked before
        machine=machine,
        processor="cpu",
        gpu=None,
        mode=mode,
        cpus=cpus_of(machine, mode),
        trials=trials,
        protocol=program_protocol(request.profile, request.n_rounds),  # type: ignore[arg-type]
        seed=0,
        versions={"mansard": VERSION},
        depends=tuple(shown_path(path) for path in request.depends),
        unknown={"gpu": "not asked: the server uses it, not Mansard"},
    )
    return plan_run(
        plan, request.runs, request.identity, subject=trials[0].workload, is_bounded=False
    )


class _ServerTarget(LocalTarget):
    """This machine, with a server that is started in each mode or runs already."""

    def __init__(
        self, serving: Serving, reporter: Reporter, root: Path, controller: BoardController
    ) -> None:
        super().__init__(root, controller)
        self._serving, self._reporter = serving, reporter

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of the server with this machine's meters."""
        kind = generation_kind(self._serving, self._reporter.note)
        meters = find_meters(self._root, self.controller.identify())
        return LocalMeasurer(meters=meters, root=self._root, kind=kind, files=files)
