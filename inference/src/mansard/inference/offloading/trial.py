"""The kind of measurement "offloads": samples that a small network keeps, or a server answers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mansard.core.errors import MeasurementError
from mansard.core.records import DecisionTime, OffloadRun, ScoreKind
from mansard.device.conditions import of_others
from mansard.device.meters.sampler import Sampler
from mansard.inference.accuracy import fed_rows, output_scores, read_labels
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import check_provider
from mansard.inference.inputs import make_inputs
from mansard.inference.npz import Array, stored_arrays
from mansard.inference.offloading.client import TIMEOUT_S, RemoteAnswer, RemoteNetwork
from mansard.inference.offloading.decision import (
    SIZES,
    OffloadDecision,
    Scores,
    decide,
    kind_of,
    time_decisions,
)
from mansard.inference.offloading.payloads import payloads
from mansard.inference.offloading.plan import OffloadPlan, OffloadTrial
from mansard.inference.offloading.wire import Payload
from mansard.inference.preparing.datasets import DataSet
from mansard.inference.servers.connection import Address
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.metering import energy_between

_N_WARM = 64  # samples before the first block; they also show whether scores are probabilities
_SKIPPED = 256  # rows that are read and dropped at a time


@dataclass(frozen=True)
class OffloadSession:
    """What a plan does not hold: the data set, which of it, and how the server is reached."""

    dataset: DataSet
    indexes: Sequence[int]  # of the samples, in their order
    address: Address
    timeout_s: float = TIMEOUT_S


def offload_kind(
    session: OffloadSession | None = None,
) -> MeasurementKind[OffloadPlan, OffloadRun]:
    """The kind "offloads"; without a session its rows can be read, and nothing measured."""
    return MeasurementKind(
        "offloads",
        OffloadPlan,
        OffloadRun,
        partial(_open, session=session),
        rows_name="offloads.jsonl",
    )


@contextmanager
def _open(plan: OffloadPlan, session: OffloadSession | None) -> Iterator[Opened[OffloadRun]]:
    if session is None:
        raise MeasurementError("offloads are measured by the command alone", fix="report this")
    network = plan.trials[0].network
    check_provider(network, find_engine(network.engine).probe())
    with _Measuring(plan, session) as measuring:
        yield Opened(measuring.measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


class _LocalNetwork:
    """The small network with its samples: loaded once, for all blocks of a run."""

    def __init__(self, spec: OffloadTrial, plan: OffloadPlan, folder: Path) -> None:
        network = spec.network
        engine = find_engine(network.engine)
        inputs = make_inputs(network, folder, plan.seed)
        self._spec, self._path = spec, folder / spec.samples.file
        self._loaded = engine.load(network, folder, inputs, network.n_threads or len(plan.cpus))
        labelled = spec.samples.is_labelled
        self._labels = read_labels(self._path).tolist() if labelled else None
        n_warm = min(_N_WARM, spec.samples.n_samples)
        rows = self.rows(0, n_warm)
        self.kind: ScoreKind = kind_of(np.stack([self.scores(rows, at) for at in range(n_warm)]))

    def rows(self, first: int, n: int) -> dict[str, Array]:
        """Stored samples of a block, by input."""
        names = [spec.name for spec in self._spec.network.input_specs]
        with stored_arrays(self._path, names) as arrays:
            for at in range(0, first, _SKIPPED):
                for name in names:
                    arrays[name].rows(min(_SKIPPED, first - at))
            return {name: arrays[name].rows(n) for name in names}

    def labels(self, first: int, n: int) -> tuple[int, ...] | None:
        """The classes of a block; None where there are none."""
        return None if self._labels is None else tuple(self._labels[first : first + n])

    def scores(self, rows: Mapping[str, Array], at: int) -> Scores:
        """The scores of one sample of a block."""
        spec = self._spec
        fed = {
            one.name: fed_rows(rows[one.name][at : at + 1], spec.samples.normalisation, one)
            for one in spec.network.input_specs
        }
        scores: Scores = output_scores(self._loaded.outputs(fed), spec.output, 1)[0]
        return scores

    def close(self) -> None:
        self._loaded.close()


@dataclass
class _Block:
    """What is recorded of the samples of a block, one after the other."""

    predicted: list[int] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    local_s: list[float] = field(default_factory=list)
    decision_s: list[float] = field(default_factory=list)
    decisions: list[OffloadDecision] = field(default_factory=list)
    offloaded: list[int] = field(default_factory=list)
    answers: list[RemoteAnswer] = field(default_factory=list)
    start_s: float = 0.0
    end_s: float = 0.0

    @property
    def columns(self) -> dict[str, Any]:
        """The fields of a row."""
        answers, decisions = self.answers, self.decisions
        return {
            "predicted": tuple(self.predicted),
            "latency_s": tuple(self.latency_s),
            "local": tuple(one.predicted for one in decisions),
            "p1": tuple(one.p1 for one in decisions),
            "p2": tuple(one.p2 for one in decisions),
            "local_s": tuple(self.local_s),
            "decision_s": tuple(self.decision_s),
            "offloaded": tuple(self.offloaded),
            "round_trip_s": tuple(one.round_trip_s for one in answers),
            "server_s": tuple(one.server_s for one in answers),
            "inference_s": tuple(one.inference_s for one in answers),
            "sent_bytes": tuple(one.sent_bytes for one in answers),
            "received_bytes": tuple(one.received_bytes for one in answers),
        }


def run_block(
    spec: OffloadTrial,
    local: _LocalNetwork,
    remote: RemoteNetwork,
    rows: Mapping[str, Array],
    sent: Sequence[Payload],
) -> _Block:
    """Every sample of a block in the way of ``spec``; raises MeasurementError."""
    block, kind, now_s = _Block(), local.kind, time.monotonic
    block.start_s = now_s()
    for at in range(spec.n_samples):
        start_s = now_s()
        predicted, is_offloaded = -1, spec.way == "remote"
        if spec.way != "remote":
            scores = local.scores(rows, at)
            scored_s = now_s()
            decision = decide(scores, kind, spec.rule)
            decided_s = now_s()
            predicted = decision.predicted
            is_offloaded = spec.way == "hierarchical" and decision.is_offloaded
            block.local_s.append(scored_s - start_s)
            block.decision_s.append(decided_s - scored_s)
            block.decisions.append(decision)
        if is_offloaded:
            answer = remote.classify(sent[at])
            predicted = answer.predicted
            block.offloaded.append(at)
            block.answers.append(answer)
        block.latency_s.append(now_s() - start_s)
        block.predicted.append(predicted)
    block.end_s = now_s()
    return block


class _Measuring:
    """Measures the trials of one run."""

    def __init__(self, plan: OffloadPlan, session: OffloadSession) -> None:
        self._plan, self._session = plan, session
        self._local: _LocalNetwork | None = None
        self._stack = ExitStack()

    def __enter__(self) -> _Measuring:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def measure(self, spec: OffloadTrial, instruments: Instruments) -> OffloadRun:
        """One block; what fails ends the run, and the blocks before stay."""
        plan, session = self._plan, self._session
        local = self._loaded(spec, instruments)
        first, n = spec.first, spec.n_samples
        rows = {} if spec.way == "remote" else local.rows(first, n)
        sent: list[Payload] = []
        if spec.way != "local":
            sent = payloads(session.dataset, spec.served, session.indexes[first : first + n])
        decisions: tuple[DecisionTime, ...] = ()
        if spec.way == "hierarchical" and first == 0:
            decisions = time_decisions((spec.n_classes, *SIZES), local.kind, spec.rule)
        with ExitStack() as stack:
            remote = RemoteNetwork(session.address, spec.served.n_classes, session.timeout_s)
            if sent:
                stack.enter_context(remote)
                remote.classify(sent[0])  # warms up the server, and this connection
            seen = stack.enter_context(Observation(instruments, plan))
            sampler = stack.enter_context(Sampler(instruments.meters))
            block = run_block(spec, local, remote, rows, sent)
            sampler.read_past(block.end_s)
            energy, why = energy_between(
                sampler,
                instruments.meters,
                plan.protocol.n_changed_min,
                block.start_s,
                block.end_s,
                n,
            )
        for sample in sampler.samples:
            instruments.keep(sample)
        labels = local.labels(first, n)
        unknown = {} if energy is not None else {"energy": why}
        if labels is None:
            unknown["labels"] = "the data set has no labels"
        return OffloadRun(
            **self._identity(spec, local.kind),
            **block.columns,
            labels=labels,
            n_reconnects=remote.n_reconnects,
            decisions=decisions,
            energy=energy,
            conditions=seen.conditions,
            disturbances=of_others(seen.conditions, instruments.mode),
            started_utc=seen.started_utc,
            duration_s=seen.duration_s,
            unknown=unknown,
        )

    def _loaded(self, spec: OffloadTrial, instruments: Instruments) -> _LocalNetwork:
        if self._local is None:
            if instruments.files is None:
                raise MeasurementError("no folder of networks was given", fix="report this")
            self._local = _LocalNetwork(spec, self._plan, instruments.files)
            self._stack.callback(self._local.close)
        return self._local

    def _identity(self, spec: OffloadTrial, kind: ScoreKind) -> dict[str, Any]:
        """The fields of a row that say what was measured."""
        plan, network = self._plan, spec.network
        of_network = ("model", "model_hash", "engine", "provider", "precision")
        of_trial = ("weights_hash", "address", "served", "way", "rule", "n_classes", "first")
        return {
            "run_id": plan.run_id,
            "trial_id": spec.trial_id,
            "source": "simulated" if plan.machine.is_simulated else "measured",
            "engine_version": plan.versions[find_engine(network.engine).package],
            "processor": plan.processor,
            "dataset": spec.samples.name,
            "dataset_hash": spec.samples.file_hash,
            "preprocessing": spec.samples.preprocessing,
            "scores": kind,
            "n_samples": spec.n_samples,
            **{name: getattr(network, name) for name in of_network},
            **{name: getattr(spec, name) for name in of_trial},
        }


OFFLOADS = offload_kind()
