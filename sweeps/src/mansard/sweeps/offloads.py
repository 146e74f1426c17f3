"""A small network with an offload server, measured in one power mode after the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.records import OffloadRule, PowerMode
from mansard.core.text import is_utf8
from mansard.device.meters.finding import find_meters
from mansard.inference.offloading.client import TIMEOUT_S, describe
from mansard.inference.offloading.payloads import check_sendable
from mansard.inference.offloading.plan import (
    BLOCK,
    OffloadPlan,
    OffloadTrial,
    make_rule,
    plan_blocks,
)
from mansard.inference.offloading.trial import OffloadSession, offload_kind
from mansard.inference.plan import make_plan
from mansard.inference.servers.connection import parse_address
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.runner import missing_trials
from mansard.sweeps.accuracies import AccuracySettings
from mansard.sweeps.modes import ModePlan, plan_run
from mansard.sweeps.networks import choose_provider
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import SweepRequest, Swept, sweep
from mansard.sweeps.targets import BenchTarget, LocalTarget, find_processor

if TYPE_CHECKING:
    from mansard.device.controller import BoardController
    from mansard.inference.preparing.networks import PreparedNetwork
    from mansard.inference.preparing.samples import SampleChoice
    from mansard.measuring.events import Measurer
    from mansard.measuring.plan import RunPlan

ENGINE = "ort"  # of both networks: it loads a file without building one before


class OffloadRequest(SweepRequest, frozen=True, kw_only=True):
    """The small network, the server of the large one, the samples and the rule.

    The defaults are those of the command. ``logistic``: β, w1 and w2; None: the confidence is p1.
    """

    network: str  # an ONNX file with trained weights
    server: str  # its address
    data: AccuracySettings = AccuracySettings()
    threshold: float | None = None  # None: 0.5 of a logistic
    logistic: tuple[float, float, float] | None = None
    provider: str | None = None  # None: the fastest that is there
    threads: int | None = None
    block: int = BLOCK  # samples that are measured in one way before the next
    timeout_s: float = TIMEOUT_S  # until the server's answer is whole


def check_trained(model: str) -> None:
    """Raise UsageError where ``model`` is not a file: the zoo's networks are not trained."""
    if not is_utf8(model) or not Path(model).is_file():
        raise UsageError(
            f"{model} is not an ONNX file",
            fix="networks of the zoo have no trained weights: give a file",
        )


def sweep_offload(request: OffloadRequest, reporter: Reporter = SILENT) -> Swept:
    """Measure every block of samples in each mode; what was measured before is not repeated.

    Raises UsageError, InputError, and MeasurementError where the server cannot be reached. Where
    it fails later, ``failure`` says so, and the blocks before are kept.
    """
    if request.hosts:
        raise UsageError(
            "the small network runs on this machine, not with --host",
            fix="run 'mansard offload run' on the board",
        )
    rule = _rule(request)
    check_trained(request.network)
    if request.data.data is None:
        raise UsageError("there are no samples", fix="give --data test_batch.bin")
    address = parse_address(request.server)
    served = describe(address, request.timeout_s)
    settings = NetworkSettings(
        engine=ENGINE, batches=(1,), accuracy=request.data, threads=request.threads
    )
    with Preparation(settings) as preparation:
        preparation.prepare([request.network], reporter, form="operators")
        ((network, samples),) = preparation.with_samples
        dataset, (output, n_classes) = samples.dataset, network.class_output()
        if served.n_classes != n_classes:
            raise UsageError(
                f"{network.model} has {n_classes} classes, {served.model} on the server "
                f"{served.n_classes}",
                fix="serve a network of the same classes",
            )
        assert dataset is not None  # noqa: S101 - data was given
        check_sendable(dataset, served)
        whole = OffloadTrial(
            network=network.trial(engine=ENGINE, provider="cpu", n_threads=request.threads),
            weights_hash=network.files.source_hash,
            samples=samples.file,
            content=dataset.content,
            output=output,
            n_classes=n_classes,
            address=address.shown,
            served=served,
            rule=rule,
            way="local",
            first=0,
            n_samples=samples.file.n_samples,
        )
        session = OffloadSession(dataset, samples.indexes, address, request.timeout_s)
        planner = _Planner(request, preparation, network, samples, whole)
        try:
            return sweep(
                request,
                planner.plan,
                reporter,
                make_local=partial(_OffloadTarget, session),
            )
        except MeasurementError as error:
            return planner.kept(error)


def _rule(request: OffloadRequest) -> OffloadRule:
    threshold, logistic = request.threshold, request.logistic
    if threshold is None and logistic is None:
        raise UsageError(
            "no rule says what is offloaded",
            fix="give --threshold 0.8, or --logistic; 'mansard offload tune' finds the best",
        )
    return make_rule(0.5 if threshold is None else threshold, logistic)


class _Planner:
    """Plans the modes of a sweep, and counts the blocks that were measured where it fails."""

    def __init__(
        self,
        request: OffloadRequest,
        preparation: Preparation,
        network: PreparedNetwork,
        samples: SampleChoice,
        whole: OffloadTrial,
    ) -> None:
        self._request, self._preparation, self._network = request, preparation, network
        self._samples, self._whole = samples, whole
        self._plans: list[RunPlan] = []

    def plan(
        self, target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter
    ) -> list[ModePlan]:
        """The plan of each mode."""
        request, machine = self._request, target.controller.identify()
        probe = target.engine_probe(ENGINE)
        gpu = None
        if request.provider != "cpu" and request.processor != "cpu":
            gpu = find_processor(target, machine, request.processor, reporter).gpu
        provider = choose_provider(probe, request.provider, has_gpu=gpu is not None)
        gpu = None if provider == "cpu" else gpu
        network = msgspec.structs.replace(self._whole.network, provider=provider)
        whole = msgspec.structs.replace(self._whole, network=network)
        trials = tuple(plan_blocks(whole, request.block))
        folder = self._preparation.new_folder()

        def write() -> None:
            self._preparation.write([whole.network], folder, reporter)
            self._preparation.write_samples(self._samples.file.file, folder, reporter)

        planned = []
        for mode in modes:
            plan = make_plan(
                OffloadPlan, machine, mode, trials, probe.versions, gpu, profile=request.profile
            )
            planned.append(
                plan_run(
                    plan,
                    request.runs,
                    request.identity,
                    files=folder,
                    write_files=write,
                    subject=f"{network.model} with {whole.served.model}",
                    is_bounded=False,
                )
            )
        self._plans += [mode.plan for mode in planned]
        return planned

    def kept(self, error: MeasurementError) -> Swept:
        """What was measured before ``error``; raises it where that is nothing."""
        runs = self._request.runs
        lacking = {plan.run_id: len(missing_trials(plan, runs)) for plan in self._plans}
        n_all = sum(len(plan.trials) for plan in self._plans)
        n_there = n_all - sum(lacking.values())
        if not n_there:
            raise error
        begun = [plan.run_id for plan in self._plans if lacking[plan.run_id] < len(plan.trials)]
        failure = MeasurementError(
            error.what,
            where=error.where,
            fix=f"{n_there} of {n_all} blocks are kept, the same command measures the others",
        )
        return Swept(tuple(begun), failure)


class _OffloadTarget(LocalTarget):
    """This machine, with the samples that are sent to a server."""

    def __init__(self, session: OffloadSession, root: Path, controller: BoardController) -> None:
        super().__init__(root, controller)
        self._session = session

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of offloads with this machine's meters."""
        meters = find_meters(self._root, self.controller.identify())
        return LocalMeasurer(
            meters=meters, root=self._root, kind=offload_kind(self._session), files=files
        )
