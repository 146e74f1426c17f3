"""The kind of measurement "accuracies": a network is fed with samples, its classes are kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mansard.core.errors import InputError, MeasurementError, StorageError
from mansard.core.records import Accuracy
from mansard.inference.accuracy.batches import Classes, predicted, ranks, read_labels, run_samples
from mansard.inference.builds import built_options
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import Engine, check_provider
from mansard.inference.inputs import make_inputs
from mansard.inference.memory import limited_to_available
from mansard.inference.plan import AccuracyPlan, AccuracyTrial
from mansard.inference.rows import head, is_for_now, why_no_batch
from mansard.measuring.instruments import Instruments, Took, utc_now
from mansard.measuring.kind import MeasurementKind, Opened

_LOADING_S = 3600.0  # at most
_BATCH_S = 600.0  # likewise, of one batch: silence beyond it is a hang
_TOLD_EVERY_S = 5.0


@dataclass(frozen=True)
class _Predictions:
    """The predicted classes of all samples."""

    options: dict[str, str]
    n_classes: int
    predicted: Classes
    ranks: Classes | None


def measure_accuracy(
    spec: AccuracyTrial, plan: AccuracyPlan, instruments: Instruments, engine: Engine
) -> Accuracy:
    """Feed one network with its samples; what cannot be run is a row with ``failure``.

    Raises MeasurementError where no folder of files was given, or where it lacks a file.
    """
    folder = instruments.files
    if folder is None:
        raise MeasurementError("no folder of networks was given", fix="report this")
    network = spec.network
    for name in ("" if network.engine_file else network.file, spec.samples.file):
        if name and not (folder / name).is_file():
            raise MeasurementError("there is no such file", where=str(folder / name))
    started_utc, start_s = utc_now(), time.monotonic()
    outcome: _Predictions | str
    try:
        outcome = _predict(spec, plan, instruments, engine, folder)
    except (MeasurementError, InputError, StorageError) as error:
        outcome = str(error)
    except MemoryError:
        outcome = "too little memory"
    return _row(spec, plan, outcome, Took(time.monotonic() - start_s, started_utc))


def _predict(
    spec: AccuracyTrial,
    plan: AccuracyPlan,
    instruments: Instruments,
    engine: Engine,
    folder: Path,
) -> _Predictions:
    network, samples = spec.network, spec.samples
    labels = read_labels(folder / samples.file) if samples.is_labelled else None
    classes: list[Classes] = []
    own_ranks: list[Classes] = []
    n_done, n_classes = 0, 0
    with ExitStack() as stack:
        if network.provider == "cpu":
            stack.enter_context(limited_to_available())
        instruments.announce(f"loading {network.title}", _LOADING_S)
        built_options(network, plan, folder)  # raises where it is not for this device
        inputs = make_inputs(network, folder, plan.seed)
        loaded = engine.load(network, folder, inputs, network.n_threads or len(plan.cpus))
        stack.callback(loaded.close)
        told_s = 0.0
        for scores in run_samples(loaded, network, samples, spec.output, folder):
            if time.monotonic() - told_s > _TOLD_EVERY_S:
                told_s = time.monotonic()
                done = f"{spec.title}, {n_done} of {samples.n_samples}"
                instruments.announce(done, _BATCH_S)
            n_new, n_classes = scores.shape
            classes.append(predicted(scores))
            if labels is not None:
                batch_labels = labels[n_done : n_done + n_new]
                if (
                    batch_labels.size
                    and not 0 <= batch_labels.min() <= batch_labels.max() < n_classes
                ):
                    raise MeasurementError(f"a label is none of {n_classes} classes")
                own_ranks.append(ranks(scores, batch_labels))
            n_done += n_new
        options = dict(loaded.options)
    return _Predictions(
        options=options,
        n_classes=n_classes,
        predicted=np.concatenate(classes),
        ranks=np.concatenate(own_ranks) if own_ranks else None,
    )


def _row(
    spec: AccuracyTrial,
    plan: AccuracyPlan,
    outcome: _Predictions | str,
    took: Took,
) -> Accuracy:
    """The row; ``outcome`` is the predictions, or why there are none."""
    network, samples = spec.network, spec.samples
    predictions, failure = (None, outcome) if isinstance(outcome, str) else (outcome, None)
    unknown = why_no_batch(network)
    if predictions is None:
        unknown |= dict.fromkeys(("n_classes", "ranks"), f"it could not be run: {failure}")
    else:
        unknown["failure"] = "it ran"
        if predictions.ranks is None:
            unknown["ranks"] = "the data set has no labels"
    return Accuracy(
        **head(network, plan, spec.trial_id),
        weights_hash=spec.weights_hash,
        processor=plan.processor,
        provider=network.provider,
        options=predictions.options if predictions else {},
        calibration=spec.calibration,
        dataset=samples.name,
        dataset_hash=samples.file_hash,
        preprocessing=samples.preprocessing,
        output=spec.output,
        n_samples=samples.n_samples,
        n_classes=predictions.n_classes if predictions else None,
        predicted=tuple(predictions.predicted.tolist()) if predictions else (),
        ranks=None
        if predictions is None or predictions.ranks is None
        else tuple(predictions.ranks.tolist()),
        failure=failure,
        started_utc=took.started_utc,
        duration_s=took.duration_s,
        unknown=unknown,
    )


@contextmanager
def _open(plan: AccuracyPlan) -> Iterator[Opened[Accuracy]]:
    """Raises MeasurementError where an engine of the plan cannot be used in this process."""
    networks = [spec.network for spec in plan.trials]
    engines = {network.engine for network in networks}
    probes = {name: find_engine(name).probe() for name in engines}
    for network in networks:
        check_provider(network, probes[network.engine])

    def measure(spec: AccuracyTrial, instruments: Instruments) -> Accuracy:
        engine = find_engine(spec.network.engine)
        return measure_accuracy(spec, plan, instruments, engine)

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


def _crashed(plan: AccuracyPlan, spec: AccuracyTrial, how: str, duration_s: float) -> Accuracy:
    """The row of a network that the measuring process did not survive."""
    return _row(spec, plan, how, Took(duration_s))


ACCURACIES: MeasurementKind[AccuracyPlan, Accuracy] = MeasurementKind(
    "accuracies",
    AccuracyPlan,
    Accuracy,
    _open,
    rows_name="accuracies.jsonl",
    is_result=lambda row: not is_for_now(row.failure),
    crashed=_crashed,
    most_events=10_000,  # it tells its progress every 5 s, for as long as there are samples
)
