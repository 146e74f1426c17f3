"""Which power modes to measure next, and the command that makes each measurement."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.analytics.data.names import device_labels, display_name
from mansard.analytics.data.opening import open_runs
from mansard.analytics.decisions.modes import PlanningData, select_data
from mansard.analytics.decisions.next_modes import Pick, Plan, plan_next
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.models.predict.prediction import NetworkSelection, Prediction, predict
from mansard.analytics.models.sanity.checks import find_faults
from mansard.analytics.pages.words.next_modes import modelled_notes, plan_in_words
from mansard.api.deciding.anchors import anchor_notes, is_elsewhere
from mansard.api.deciding.candidate_modes import (
    CandidateModes,
    elsewhere_note,
    find_modes,
    local_devices,
    require_local,
)
from mansard.api.deciding.measuring_words import program_words
from mansard.api.deciding.next_measurement import is_cpu_beside_gpu
from mansard.api.parallel import Work, do_work
from mansard.api.result import Result
from mansard.core.errors import ClusterError, UsageError
from mansard.core.hardware import devices_called
from mansard.core.text import printable
from mansard.core.units import format_frequency
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.decisions.modes import ModeFrame
    from mansard.analytics.models.sanity.finding import Finding
    from mansard.core.records import ProgramRun


_HZ = {"gpu_hz": "gpu", "memory_hz": "emc", "cpu_hz": "cpu"}


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is asked for; the defaults are those of the command."""

    runs: Path | None = None  # folder of runs and imported tables; None for a first plan
    modes: str = "all"  # to choose from, as ``find_modes`` takes them
    n_next: int = 10
    minimise: Literal["energy", "latency", "edp", "power"] = "energy"
    max_latency_s: float | None = None  # longest time of a batch that will do
    max_power_w: float | None = None  # most power while it runs that will do
    network: str | None = None  # the network that counts; None: all of the runs
    device: str | None = None  # of the runs, or a part of its name
    board: Path | None = None  # root folder of the board that knows the modes
    allow_mixed: bool = False  # combine runs of different versions


class PlanAnswer(Result, frozen=True):
    """A plan, the command that measures it (empty where nothing is left), and what to know.

    ``warnings``: what cannot be true of the measurements that the plan rests on.
    """

    plan: Plan
    command: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class _Known:
    """What a folder holds of one device.

    ``is_cpu``: it is the CPU of a machine with a GPU. ``program``: what is planned for, where that
    is a program; of several the newest.
    """

    data: PlanningData
    is_cpu: bool
    program: ProgramRun | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def plan(
    request: PlanRequest,
    networks: Sequence[str | None] | None = None,
    *,
    dask: str | None = None,
    reporter: Reporter = SILENT,
) -> tuple[PlanAnswer, ...]:
    """Choose the power modes that are worth measuring next; sets and measures nothing.

    A plan for each of ``networks``, None standing for all that the runs have; by default for
    ``request.network``. Runs are read once. Before anything is measured: the modes that together
    tell most about all the others. Then: those whose measurement is expected to lessen the regret
    of the decision most, and those that make predictions surer. ``dask``: address of a scheduler of
    Dask, whose workers choose. Raises UsageError, InputError, StorageError, DeviceError, and
    ClusterError.
    """
    networks = (request.network,) if networks is None else networks
    if not networks:
        raise UsageError("no network is given", fix="give None for all that the runs have")
    for option, value in (("--network", networks[0]), ("--device", request.device)):
        if value is not None and request.runs is None:
            raise UsageError(f"{option} needs runs", fix="name the folder of the runs as well")
    read = None if request.runs is None else _read_runs(request, request.runs)
    asked = [
        msgspec.structs.replace(
            request,
            network=None
            if network and read and is_elsewhere(network, read.prediction)
            else network,
        )
        for network in networks
    ]
    local = () if read is None else _local_devices(request, read)
    of_others = () if read is None or local else (_others_note(request, read),)
    named = [network for network in networks if network is not None]
    known_of = [
        None if read is None or not local else _known(one, read, local, named) for one in asked
    ]
    candidates: dict[str | None, CandidateModes] = {}
    for known in known_of:
        device = None if known is None else known.data.device
        if device not in candidates:
            seen = None if known is None else known.data.modes
            candidates[device] = find_modes(request.modes, request.board, device, seen)
    work = Work(
        function=_plan_next,
        title="Planning",
        name=lambda one: str(one.network),
        lost=_lost,
        shared=(request, {device: modes.modes for device, modes in candidates.items()}),
    )
    questions = [
        _Question(one.network, None if known is None else known.data)
        for one, known in zip(asked, known_of, strict=True)
    ]
    jobs = 1 if dask is None else None
    plans = do_work(work, questions, jobs=jobs, dask=dask, reporter=reporter)
    return tuple(
        _answer(one, known, chosen, candidates[question.device], of_others)
        for one, known, chosen, question in zip(asked, known_of, plans, questions, strict=True)
    )


def _network_here(network: str | None, read: _PlanBasis | None) -> str | None:
    """None, for all of the runs, of a network that other boards alone know: it tells no modes."""
    if network is None or read is None or not is_elsewhere(network, read.prediction):
        return network
    return None


class _Question(msgspec.Struct, frozen=True):
    """What is planned for: a network or all, and what is known of it."""

    network: str | None
    data: PlanningData | None

    @property
    def device(self) -> str | None:
        """None: this board."""
        return None if self.data is None else self.data.device


def _plan_next(
    asked: _Question, shared: tuple[PlanRequest, Mapping[str | None, ModeFrame]]
) -> Plan:
    request, candidates = shared
    known = asked.data
    chosen = plan_next(
        candidates[asked.device],
        None if known is None else known.observations,
        n=request.n_next,
        wanted=Wanted(
            minimise=request.minimise,
            max_latency_s=request.max_latency_s,
            max_power_w=request.max_power_w,
        ),
        measured=None if known is None else known.modes,
    )
    return plan_in_words(chosen)


def _lost(asked: _Question) -> Plan:
    raise ClusterError(
        f"each process that planned for {asked.network} was killed, possibly for lack of memory",
        fix="choose from fewer modes, or give workers more memory",
    )


def _answer(
    request: PlanRequest,
    known: _Known | None,
    plan: Plan,
    modes: CandidateModes,
    of_others: tuple[str, ...],
) -> PlanAnswer:
    """A plan with its command, and what to know of it."""
    is_cpu = known is not None and known.is_cpu
    program = None if known is None else known.program
    command = _command(plan, request, program, are_named=modes.are_named, is_cpu=is_cpu)
    if known is None:
        return PlanAnswer(plan, command, of_others)
    notes = elsewhere_note(known.data.device, request.board) if command else ()
    return PlanAnswer(plan, command, (*known.notes, *modes.notes, *notes), known.warnings)


def _local_devices(request: PlanRequest, read: _PlanBasis) -> tuple[str, ...]:
    """The devices of the runs that may be the one that is planned for; raises UsageError.

    With a board, only devices that may be this board: runs of other machines do not count.
    """
    models = read.prediction.models
    asked = request.device
    named = devices_called(asked, models.devices) if asked else ()
    return (
        require_local(named, request.board, models.machines)
        if named
        else local_devices(models.devices, request.board, models.machines)
    )


def _others_note(request: PlanRequest, read: _PlanBasis) -> str:
    names = ", ".join(printable(name) for name in read.prediction.models.devices[:3])
    if not names:
        return "nothing was measured yet: these are the first modes to measure"
    return (
        f"the runs are of {names}, not of the board at {request.board}: none of its modes counts "
        "as measured"
    )


@dataclass(frozen=True, eq=False)
class _PlanBasis:
    """Runs, what roofs predict of their networks, and what cannot be true of them."""

    dataset: Dataset
    prediction: Prediction
    faults: tuple[Finding, ...]


def _read_runs(request: PlanRequest, runs: Path) -> _PlanBasis:
    dataset = open_runs([runs], allow_mixed=request.allow_mixed)
    names = dict.fromkeys(score.model for score in dataset.scores)
    # Of networks of which only times are known the plan makes its own fits.
    scored = [NetworkSelection(name=name, phase=None) for name in names]
    prediction = predict(dataset, scored, fill_gaps=False)
    return _PlanBasis(dataset, prediction, tuple(find_faults(prediction.models)))


def _known(
    request: PlanRequest, read: _PlanBasis, devices: Sequence[str], networks: Sequence[str]
) -> _Known:
    """What is known of the one of ``devices`` that is planned for; ``networks``: all asked for."""
    dataset, prediction = read.dataset, read.prediction
    modes, observations, predictions = (
        frame.filter(frame["device"].is_in(list(devices)))
        for frame in (
            prediction.models.modes,
            prediction.models.observations,
            prediction.predictions,
        )
    )
    seen = select_data(
        modes,
        observations,
        predictions,
        device=None if devices_called(request.device or "", devices) else request.device,
        network=request.network,
    )
    labels = device_labels(dataset.all_manifests)
    runs = [run for run in dataset.all_manifests if labels[run.run_id] == seen.device]
    is_cpu = is_cpu_beside_gpu(seen.device, dataset)
    faults = [fault for fault in read.faults if fault.device == seen.device]
    warnings = tuple(fault.text for fault in faults if fault.is_serious)
    # Of a window the program is run.
    asked = None if request.network is None else request.network.partition(" [")[0].casefold()
    programs = [
        program
        for program in dataset.programs
        if labels[program.run_id] == seen.device
        and asked in (None, display_name(program.workload).casefold())
    ]
    newest = max(programs, key=lambda program: program.started_utc, default=None)
    if request.network is None and any(run.kind != "programs" for run in runs):
        newest = None  # networks are planned for as well
    anchors = anchor_notes(networks, prediction, seen.device)
    notes = (*dataset.notes, *modelled_notes(seen), *anchors)
    return _Known(seen, is_cpu, newest, notes, warnings)


def _command(
    plan: Plan,
    request: PlanRequest,
    program: ProgramRun | None,
    *,
    are_named: bool,
    is_cpu: bool,
) -> str:
    """The command that measures the modes of ``plan``; empty where there is none.

    Modes that the board knows (``are_named``) are in it by name, others by their clocks if those
    can be set.
    """
    if not plan.picks:
        return ""
    clocks = [_settings_text(pick) for pick in plan.picks]
    if are_named or not all(clocks):
        chosen = ",".join(pick.mode for pick in plan.picks)
    else:
        chosen = ";".join(clocks)
    words = ["mansard", "bench" if program is None else "measure", "--mode", chosen]
    if is_cpu and program is None:
        words += ["--processor", "cpu"]
    if request.board is not None:
        words += ["--board", str(request.board)]
    if request.runs not in (None, Path("runs")):
        words += ["--runs", str(request.runs)]
    if program is not None:
        words += program_words(program)
    return shlex.join(words)


def _settings_text(pick: Pick) -> str:
    """``gpu=612MHz,emc=2133MHz,cores=4``; empty where clocks alone do not make the mode."""
    # SMs and power limits are of the board's own modes: no setting of clocks gives them.
    if "n_sms" in pick.settings or "power_limit_w" in pick.settings:
        return ""
    parts = [
        f"{key}={format_frequency(pick.settings[name])}"
        for name, key in _HZ.items()
        if name in pick.settings
    ]
    if "n_cpus" in pick.settings:
        parts.append(f"cores={pick.settings['n_cpus']:.0f}")
    return ",".join(parts)
