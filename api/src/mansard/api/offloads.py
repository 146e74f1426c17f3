"""Hierarchical inference end to end: the large network served, the small one run beside it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from mansard.analytics.decisions.offload.measured import measured_offload
from mansard.analytics.decisions.offload.records import MeasuredOffload
from mansard.api.result import Result
from mansard.core.connections import parse_listen
from mansard.core.errors import InputError, MansardError, MeasurementError, UsageError
from mansard.core.records import Manifest, OffloadRun, ServedNetwork
from mansard.inference.accuracy import fed_rows, output_scores, predicted
from mansard.inference.engines import find_engine
from mansard.inference.inputs import make_inputs, numpy_name
from mansard.inference.npz import Array
from mansard.inference.offloading.server import Classifier, OffloadServer
from mansard.inference.offloading.trial import OFFLOADS
from mansard.inference.offloading.wire import Payload, array_of
from mansard.inference.plan import SEED
from mansard.inference.preparing.preprocessing import (
    FittedPreprocessing,
    as_sample,
    decode_image,
    fit,
    parse_preprocessing,
)
from mansard.inference.servers.connection import KEY_VARIABLE
from mansard.sweeps.networks import choose_provider
from mansard.sweeps.offloads import ENGINE, OffloadRequest, check_trained, sweep_offload
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.rows import rows_of

if TYPE_CHECKING:
    from mansard.inference.plan import InputSpec

_N_WARM = 3  # calls before the first sample
_LOCAL = ("127.0.0.1", "::1", "localhost")


class ServeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which network is served, and where; the defaults are those of the command."""

    model: str  # an ONNX file with trained weights
    listen: str = "127.0.0.1:8500"
    preprocess: str | None = None  # of images; None: "imagenet"
    precision: str | None = None  # None: that of the file
    provider: str | None = None  # None: the fastest that is there
    threads: int | None = None  # None: one for each CPU


@contextlib.contextmanager
def serve_network(request: ServeRequest, reporter: Reporter = SILENT) -> Iterator[OffloadServer]:
    """A server that listens: call its ``serve_forever``; its ``address`` is the URL.

    Every program that reaches the port can use the network, unless MANSARD_SERVER_KEY has a token
    that clients must send. Raises UsageError, ModelError, MeasurementError, DeviceError.
    """
    host, port = parse_listen("--listen", request.listen)
    check_trained(request.model)
    probe = find_engine(ENGINE).probe()
    has_gpu = bool(probe.providers and {"cuda", "tensorrt"} & set(probe.providers))
    provider = choose_provider(probe, request.provider, has_gpu=has_gpu)
    precisions = () if request.precision is None else (request.precision,)
    with Preparation(NetworkSettings(batches=(1,), precisions=precisions)) as preparation:
        preparation.prepare([request.model], reporter, form="operators")
        (network,) = preparation.networks
        if network.files.is_drawn:
            raise UsageError(
                f"the weights of {network.model} are random, so its answers mean nothing",
                fix="give a file with trained weights",
            )
        if len(network.input_specs) != 1:
            names = ", ".join(spec.name for spec in network.input_specs)
            raise UsageError(
                f"{network.model} has the inputs {names}, and a sample is one",
                fix="serve a network of one input",
            )
        output, n_classes = network.class_output()
        (spec,) = network.input_specs
        how = _preprocessing(request.preprocess, spec)
        served = ServedNetwork(
            model=network.model,
            model_hash=network.model_hash,
            weights_hash=network.files.source_hash,
            engine=ENGINE,
            engine_version=probe.versions[find_engine(ENGINE).package],
            provider=provider,
            precision=network.precision,
            n_classes=n_classes,
            preprocessing="" if how is None else how.words,
            takes_images=how is not None,
            input_name=spec.name,
            input_type=numpy_name(spec.type_name),
            input_shape=spec.shape[1:],
        )
        trial = network.trial(
            engine=ENGINE, provider=provider, n_threads=request.threads, with_layers=False
        )
        folder = preparation.new_folder()
        preparation.write([trial], folder, reporter)
        n_threads = request.threads or len(os.sched_getaffinity(0))
        inputs = make_inputs(trial, folder, SEED)
        loaded = find_engine(ENGINE).load(trial, folder, inputs, n_threads)
        try:
            for _ in range(_N_WARM):
                loaded.outputs(inputs)
            classify = _classifier(loaded.outputs, output, spec, how)
            key = os.environ.get(KEY_VARIABLE, "")
            with OffloadServer(host, port, served, classify, key) as server:
                if host not in _LOCAL and not key:
                    reporter.note(
                        "warning: every program that reaches this port can ask the network; "
                        f"a token in {KEY_VARIABLE}, here and at the client, keeps others out"
                    )
                yield server
        finally:
            loaded.close()


def _preprocessing(text: str | None, spec: InputSpec) -> FittedPreprocessing | None:
    """How images become the input; None where it takes none and nothing was asked for."""
    asked = parse_preprocessing(text)
    try:
        return fit(asked, spec)
    except UsageError:
        if text is not None:
            raise
        return None


def _classifier(
    outputs: Callable[[dict[str, Any]], dict[str, Any]],
    output: str,
    spec: InputSpec,
    how: FittedPreprocessing | None,
) -> Classifier:
    """What answers one sample; the preprocessing of images is in its time but not the network's."""

    def classify(payload: Payload) -> tuple[int, float]:
        rows = _rows(payload, spec, how)
        start_s = time.monotonic()
        scores = output_scores(outputs({spec.name: rows}), output, 1)
        end_s = time.monotonic()
        answer = int(predicted(scores)[0])
        if answer >= scores.shape[1]:
            raise MeasurementError("the scores of a sample are not finite numbers")
        return answer, end_s - start_s

    return classify


def _rows(payload: Payload, spec: InputSpec, how: FittedPreprocessing | None) -> Array:
    """One sample as the network is fed; raises InputError."""
    if payload.form == "tensor":
        wanted = (numpy_name(spec.type_name), spec.shape[1:])
        return array_of(payload.data, payload.type_name, payload.shape, wanted)[None]
    if how is None:
        raise InputError(f"the network takes {spec.type_name} {list(spec.shape[1:])}, not images")
    if payload.form == "image":
        pixels = decode_image(BytesIO(payload.data), how, "the sample")
    else:
        shape = payload.shape
        if len(shape) != 3 or shape[2] != 3 or min(shape) < 1:
            raise InputError(f"pixels are height × width × 3, not {list(shape)}")
        flat = array_of(payload.data, payload.type_name, shape, ("uint8", shape))
        try:
            pixels = as_sample(np.asarray(flat, np.uint8), how)
        except (ValueError, MemoryError) as error:
            raise InputError(f"the pixels cannot be resized ({error})") from error
    rows = pixels[None]
    return rows if how.normalisation is None else fed_rows(rows, how.normalisation, spec)


class OffloadResult(Result, frozen=True):
    """What was measured in each mode, now or before; ``rows`` are its blocks."""

    measured: tuple[MeasuredOffload, ...]
    rows: tuple[tuple[Manifest, OffloadRun], ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one."""
        if self.failure is not None:
            raise self.failure


def run_offload(request: OffloadRequest, reporter: Reporter = SILENT) -> OffloadResult:
    """Measure a small network here and a large one on a server, end to end, in each mode.

    Every block of samples runs in three ways: all kept, all offloaded, and by the rule. What was
    measured before is not measured again. Raises UsageError, InputError, MeasurementError; where
    the server fails later, the blocks before are kept, and ``failure`` says so.
    """
    swept = sweep_offload(request, reporter)
    rows = rows_of(request.runs, swept.run_ids, OFFLOADS)
    by_run: dict[str, list[tuple[Manifest, OffloadRun]]] = {}
    for manifest, row in rows:
        by_run.setdefault(manifest.run_id, []).append((manifest, row))
    measured = tuple(
        measured_offload(blocks[0][0], [row for _, row in blocks]) for blocks in by_run.values()
    )
    return OffloadResult(measured, tuple(rows), swept.failure)
