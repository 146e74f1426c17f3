"""Which power modes to measure next, and the command that measures them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.boards import (
    FoundModes,
    elsewhere_note,
    find_modes,
    own_devices,
    require_own,
)
from mansard.api.measure_commands import is_cpu_beside_gpu, program_words
from mansard.api.parallel import Work, do_work
from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import ClusterError, UsageError
from mansard.core.text import printable

if TYPE_CHECKING:
    from mansard.analytics.data.dataset import Dataset
    from mansard.analytics.decisions.modes import ModeFrame
    from mansard.analytics.decisions.plan import Observed, Pick, Plan
    from mansard.analytics.models.predict.prediction import Prediction
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
    network: str | None = None  # the network that counts; None: all of the runs
    device: str | None = None  # of the runs, or a part of its name
    board: Path | None = None  # root folder of the board that knows the modes
    mix: bool = False  # take runs of different versions together


class PlanAnswer(msgspec.Struct, frozen=True):
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

    observed: Observed
    is_cpu: bool
    program: ProgramRun | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def plan(request: PlanRequest) -> PlanAnswer:
    """Choose the power modes that are worth measuring next; sets and measures nothing.

    Before anything is measured: those that together tell most about all the others. Then: those
    that may be better than the best so far, and those that make predictions surer. Raises
    UsageError, InputError, StorageError, DeviceError.
    """
    return plan_each(request, (request.network,))[0]


def plan_each(
    request: PlanRequest,
    networks: Sequence[str | None],
    *,
    on: str | None = None,
    reporter: Reporter = SILENT,
) -> tuple[PlanAnswer, ...]:
    """``plan`` for each of ``networks``, in their order. Runs are read once.

    ``on``: address of a scheduler of Dask, whose workers choose; raises ClusterError too.
    """
    if not networks:
        raise UsageError("no network is given", fix="give None for all that the runs have")
    for option, value in (("--network", networks[0]), ("--device", request.device)):
        if value is not None and request.runs is None:
            raise UsageError(f"{option} is of runs", fix="name the folder of the runs as well")
    asked = [msgspec.structs.replace(request, network=network) for network in networks]
    read = None if request.runs is None else _read_runs(request, request.runs)
    own = () if read is None else _own_devices(request, read)
    of_others = () if read is None or own else (_others_note(request, read),)
    each = [None if read is None or not own else _known(one, read, own) for one in asked]
    found: dict[str | None, FoundModes] = {}
    for known in each:
        device = None if known is None else known.observed.device
        if device not in found:
            seen = None if known is None else known.observed.modes
            found[device] = find_modes(request.modes, request.board, device, seen)
    work = Work(
        function=_plan_next,
        title="Planning",
        name=lambda one: str(one.network),
        lost=_lost,
        shared=(request, {device: each.modes for device, each in found.items()}),
    )
    questions = [
        _Question(one.network, None if known is None else known.observed)
        for one, known in zip(asked, each, strict=True)
    ]
    jobs = 1 if on is None else None
    plans = do_work(work, questions, jobs=jobs, on=on, reporter=reporter)
    return tuple(
        _answer(one, known, chosen, found[question.device], of_others)
        for one, known, chosen, question in zip(asked, each, plans, questions, strict=True)
    )


class _Question(msgspec.Struct, frozen=True):
    """What is planned for: a network or all, and what is known of it."""

    network: str | None
    observed: Observed | None

    @property
    def device(self) -> str | None:
        """None: this board."""
        return None if self.observed is None else self.observed.device


def _plan_next(
    asked: _Question, shared: tuple[PlanRequest, Mapping[str | None, ModeFrame]]
) -> Plan:
    from mansard.analytics.decisions.plan import plan_next

    request, candidates = shared
    known = asked.observed
    return plan_next(
        candidates[asked.device],
        None if known is None else known.observations,
        n=request.n_next,
        minimise=request.minimise,
        max_latency_s=request.max_latency_s,
        measured=None if known is None else known.modes,
    )


def _lost(asked: _Question) -> Plan:
    raise ClusterError(
        f"each process that planned for {asked.network} was killed, maybe for want of memory",
        fix="choose from fewer modes, or give workers more memory",
    )


def _answer(
    request: PlanRequest,
    known: _Known | None,
    found: Plan,
    modes: FoundModes,
    of_others: tuple[str, ...],
) -> PlanAnswer:
    """A plan with its command, and what to know of it."""
    is_cpu = known is not None and known.is_cpu
    program = None if known is None else known.program
    command = _command(found, request, program, are_named=modes.are_named, is_cpu=is_cpu)
    if known is None:
        return PlanAnswer(found, command, of_others)
    notes = elsewhere_note(known.observed.device, request.board) if command else ()
    return PlanAnswer(found, command, (*known.notes, *modes.notes, *notes), known.warnings)


def _own_devices(request: PlanRequest, read: _Read) -> tuple[str, ...]:
    """The devices of the runs that may be the one that is planned for; raises UsageError.

    With a board, only devices that may be this board: runs of other machines do not count.
    """
    models = read.prediction.models
    asked = request.device
    named = [name for name in models.devices if asked and asked.casefold() in name.casefold()]
    return (
        require_own(named, request.board, models.machines)
        if named
        else own_devices(models.devices, request.board, models.machines)
    )


def _others_note(request: PlanRequest, read: _Read) -> str:
    names = ", ".join(printable(name) for name in read.prediction.models.devices[:3])
    if not names:
        return "nothing was measured yet: these are the first modes to measure"
    return (
        f"the runs are of {names}, not of the board at {request.board}: none of its modes counts "
        "as measured"
    )


@dataclass(frozen=True, eq=False)
class _Read:
    """Runs, what roofs predict of their networks, and what cannot be true of them."""

    dataset: Dataset
    prediction: Prediction
    faults: tuple[Finding, ...]


def _read_runs(request: PlanRequest, runs: Path) -> _Read:
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.models.predict.prediction import NetworkSelection, predict
    from mansard.analytics.models.sanity.checks import find_faults

    dataset = open_runs([runs], mix=request.mix)
    names = dict.fromkeys(score.model for score in dataset.scores)
    # Of networks of which only times are known the plan makes its own fits.
    scored = [NetworkSelection(name=name, phase=None) for name in names]
    prediction = predict(dataset, scored, fill_gaps=False)
    return _Read(dataset, prediction, tuple(find_faults(prediction.models)))


def _known(request: PlanRequest, read: _Read, own: Sequence[str]) -> _Known:
    from mansard.analytics.data.names import device_labels, display_name
    from mansard.analytics.decisions.plan import observed

    dataset, prediction = read.dataset, read.prediction
    modes, observations, predictions = (
        frame.filter(frame["device"].is_in(list(own)))
        for frame in (
            prediction.models.modes,
            prediction.models.observations,
            prediction.predictions,
        )
    )
    found = observed(
        modes,
        observations,
        predictions,
        device=request.device,
        network=request.network,
    )
    labels = device_labels(dataset.all_manifests)
    ours = [each for each in dataset.all_manifests if labels[each.run_id] == found.device]
    is_cpu = is_cpu_beside_gpu(found.device, dataset)
    faults = [each for each in read.faults if each.device == found.device]
    warnings = tuple(each.text for each in faults if each.is_serious)
    # Of a window the program is run.
    asked = None if request.network is None else request.network.partition(" [")[0].casefold()
    programs = [
        each
        for each in dataset.programs
        if labels[each.run_id] == found.device
        and asked in (None, display_name(each.workload).casefold())
    ]
    program = max(programs, key=lambda each: each.started_utc, default=None)
    if request.network is None and any(each.kind != "programs" for each in ours):
        program = None  # networks are planned for as well
    return _Known(found, is_cpu, program, (*dataset.notes, *found.notes), warnings)


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
    from mansard.core.units import format_frequency

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
