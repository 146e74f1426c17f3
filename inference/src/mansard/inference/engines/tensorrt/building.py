"""From an ONNX file to an engine file, by TensorRT's builder.

Layers may be placed on a core of the deep learning accelerator (DLA). Times of kernels that a
builder has measured are kept for the next build on the same device.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from mansard.core.errors import MeasurementError, StorageError
from mansard.core.formats.onnx import labels_of
from mansard.core.storage.files import read_whole, replacing, storage_errors, write_atomic
from mansard.core.text import cpu_list, first_of
from mansard.inference.engines.engine import Built
from mansard.inference.engines.tensorrt.calibration import (
    DeviceMemory,
    SampleFeed,
    calibrator,
    open_samples,
)
from mansard.inference.engines.tensorrt.messages import (
    BuildProgress,
    Messages,
    collect_messages,
    explained,
    monitor,
    not_parsed,
    remarks,
)
from mansard.inference.engines.tensorrt.precision import (
    Capability,
    Typing,
    check_precision,
    check_types,
    creation_flags,
    find_typing,
    set_flags,
)
from mansard.inference.engines.tensorrt.versions import Version, load_bindings, read_version
from mansard.inference.plan import BuildSettings, BuildTrial

State = Literal["used", "new", "none"]
TIMING_CACHE = "timing.cache"  # in the folder of the caches of one version and device
_MOST_BYTES = 1 << 30
_REFUSED = re.compile(r"timing cache.* not (?:be )?used|Failed to deserialize timing cache")


class TimingCache:
    """The timing cache of one build; ``state``: whether the builder accepted the file's content."""

    def __init__(self, config: Any, path: Path, version: Version, messages: Messages) -> None:
        self.state: State = "none"
        self._config, self._path = config, path
        if version.has("timing_cache"):
            self.state = "new"
            content = _read(path)
            if content and self._is_taken(content, messages):
                self.state = "used"
            elif not config.set_timing_cache(config.create_timing_cache(b""), False):
                self.state = "none"

    def write(self) -> None:
        """Write the cache after the build; raises StorageError."""
        if self.state != "none" and (cache := self._config.get_timing_cache()) is not None:
            write_atomic(self._path, bytes(cache.serialize()))

    def _is_taken(self, content: bytes, messages: Messages) -> bool:
        """Whether the builder accepts the cache: it rejects that of another version or device."""
        n_errors = len(messages.errors)
        cache = self._config.create_timing_cache(content)
        taken = cache is not None and self._config.set_timing_cache(cache, False)
        refused = is_refused(messages)
        del messages.errors[n_errors:]  # it is built without
        return bool(taken) and not refused


def is_refused(messages: Messages) -> bool:
    """Whether the builder reported that it rejects the timing cache."""
    return any(map(_REFUSED.search, (*messages.warnings, *messages.errors)))


def _read(path: Path) -> bytes:
    """The file's content; empty where it is missing or cannot be read: it is written anew."""
    try:
        return read_whole(path, most_bytes=_MOST_BYTES) if path.exists() else b""
    except StorageError:
        return b""


PRECISIONS = ("fp16", "int8")
_SHOWN = 3


@dataclass(frozen=True)
class Placement:
    """The layers that a DLA core cannot run, of how many; constants do not count.

    Where nodes were placed, of those that were placed on the DLA.
    """

    n_layers: int
    lacking: tuple[str, ...]  # names of those that it cannot run

    @property
    def share(self) -> float | None:
        """From 0 to 1; None where the network has no layer."""
        return 1 - len(self.lacking) / self.n_layers if self.n_layers else None


def check_dla(settings: BuildSettings, precision: str, version: Version, n_cores: int) -> None:
    """Raise MeasurementError where no DLA core can run a build with these settings."""
    if not version.has("dla"):
        raise MeasurementError(
            f"{version.name} cannot build for a DLA",
            fix="leave the DLA out, or use a version up to 10.7 or from 11.4.1 on",
        )
    if settings.dla_core is not None and settings.dla_core >= n_cores:
        has = f"{n_cores} DLA core{'' if n_cores == 1 else 's'}" if n_cores else "no DLA core"
        raise MeasurementError(
            f"there is no DLA core {settings.dla_core}: this device has {has}",
            fix="leave the DLA out" if n_cores == 0 else f"give 0 to {n_cores - 1}",
        )
    if precision not in PRECISIONS:
        raise MeasurementError(f"a DLA has no {precision}", fix=f"use {' or '.join(PRECISIONS)}")
    if settings.ranges:
        raise MeasurementError("a DLA runs only networks of fixed dimensions", fix="fix them all")


def place_on_dla(
    bindings: Any, config: Any, network: Any, settings: BuildSettings, where: str
) -> Placement:
    """Place the layers that a DLA core can run on it: all, or those of ``settings.dla_nodes``.

    One engine then uses both devices, and copies where it changes between them. Raises
    MeasurementError where the core cannot run all of these and the GPU is not allowed for the rest.
    """
    config.DLA_core = settings.dla_core
    if settings.with_fallback or settings.dla_nodes:
        config.set_flag(bindings.BuilderFlag.GPU_FALLBACK)
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    layers = [layer for layer in layers if layer.type != bindings.LayerType.CONSTANT]
    if settings.dla_nodes:
        layers = layers_of_nodes(layers, settings.dla_nodes, where)
    else:
        config.default_device_type = bindings.DeviceType.DLA
    lacking = tuple(layer.name for layer in layers if not config.can_run_on_DLA(layer))
    for layer in layers if settings.dla_nodes else ():
        if layer.name not in lacking:
            config.set_device_type(layer, bindings.DeviceType.DLA)
    if lacking and not settings.with_fallback:
        raise MeasurementError(
            f"the DLA lacks {len(lacking)} of {len(layers)} layers: {first_of(lacking, _SHOWN)}",
            where=where,
            fix="allow the GPU for the rest",
        )
    return Placement(len(layers), lacking)


def layers_of_nodes(layers: Sequence[Any], nodes: Collection[int], where: str) -> list[Any]:
    """Those of a parsed network's ``layers`` that are ``nodes``, by the labels in their names.

    Up to 8.5 a layer says in its name alone of which node it is, later in its metadata too. What
    the parser adds beside a node has no label: it goes with the layer before it, and where it comes
    first with the one after it. Raises MeasurementError where no layer is any of ``nodes``.
    """
    labels = [
        labels_of(layer.name) or labels_of(getattr(layer, "metadata", "")) for layer in layers
    ]
    near = next(filter(None, labels), ())
    chosen = []
    for layer, of_layer in zip(layers, labels, strict=True):
        near = of_layer or near
        if not set(near).isdisjoint(nodes):
            chosen.append(layer)
    if not chosen:
        raise MeasurementError(
            f"no layer of it is any of the nodes {cpu_list(sorted(nodes))} for the DLA",
            where=where,
            fix="name nodes by their index in the score: mansard score MODEL",
        )
    return chosen


_NO_DLA = "it is built for the GPU"


class Device(DeviceMemory, Protocol):
    """The device that an engine is built on and for."""

    def compute_capability(self) -> Capability: ...


@dataclass(frozen=True)
class _Job:
    """What the steps of one build share; ``capability``: of the device that it is for."""

    bindings: Any
    version: Version
    messages: Messages
    trial: BuildTrial
    typing: Typing
    capability: Capability
    folder: Path
    into: Path


def build(
    trial: BuildTrial,
    folder: Path,
    into: Path,
    announce: Callable[[str, float], None],
    device: Device,
    clock: Callable[[], float] = time.monotonic,
) -> Built:
    """Write ``into / trial.engine_file`` from ``folder / trial.file``, whole or not at all.

    The caches of times and of calibrations in ``into`` are used and written. ``device`` is asked
    for nothing where the settings name a compute capability, unless int8 is calibrated. Raises
    MeasurementError in one line, ModelError for a file that is no network, StorageError.
    """
    bindings = load_bindings()
    version = read_version(bindings)
    path = folder / trial.file
    with storage_errors(path):
        typing = find_typing(path, trial.precision, version)
    named = trial.settings.compute_capability
    capability = device.compute_capability() if named is None else _parsed(named)
    check_precision(typing, version, capability)
    with collect_messages(bindings) as (logger, messages):
        job = _Job(bindings, version, messages, trial, typing, capability, folder, into)
        return _build(job, logger, device, BuildProgress(trial.title, announce, clock))


def count_dla_cores() -> int:
    """The number of DLA cores; raises MeasurementError where TensorRT cannot tell."""
    bindings = load_bindings()
    with collect_messages(bindings) as (logger, messages):
        return int(_builder(bindings, logger, messages, "the DLA").num_DLA_cores)


def _build(job: _Job, logger: Any, device: Device, progress: BuildProgress) -> Built:
    bindings, version, settings = job.bindings, job.version, job.trial.settings
    builder = _builder(bindings, logger, job.messages, job.trial.model)
    if settings.dla_core is not None:
        check_dla(settings, job.typing.precision, version, builder.num_DLA_cores)
    network = builder.create_network(creation_flags(bindings, job.typing, version))
    parser = bindings.OnnxParser(network, logger)
    if not parser.parse_from_file(str(job.folder / job.trial.file)):
        raise not_parsed(parser, job.messages, version, job.trial.model)
    check_types(bindings, network, job.typing)
    config = builder.create_builder_config()
    set_flags(bindings, builder, config, job.typing, version)
    _configure(job, config)
    placement = None
    if settings.dla_core is not None:
        placement = place_on_dla(bindings, config, network, settings, job.trial.model)
    profile = _add_profile(job, builder, config, network)
    options = job.typing.options | settings.options
    cache = TimingCache(config, job.into / TIMING_CACHE, version, job.messages)
    with contextlib.ExitStack() as held:
        samples = None
        if job.typing.is_calibrated:
            samples = open_samples(job.trial, job.folder, job.into, device)
            held.callback(samples.close)
            if profile is not None:
                config.set_calibration_profile(profile)
        engine = _run(job, builder, config, network, samples, progress)
    with replacing(job.into / job.trial.engine_file) as stream:
        stream.write(memoryview(engine))
    cache.write()
    if samples is not None:
        options["calibration"] = samples.in_words
    return Built(
        n_layers=network.num_layers,
        dla_share=placement.share if placement else None,
        timing_cache=cache.state,
        options=options,
        remarks=remarks(job.messages),
        unknown=_unknown(placement),
    )


def _run(
    job: _Job,
    builder: Any,
    config: Any,
    network: Any,
    samples: SampleFeed | None,
    progress: BuildProgress,
) -> Any:
    """Build; returns the engine's bytes, raises MeasurementError.

    The builder calls back while it works: what it calls is held here until it has ended.
    """
    watching = monitor(job.bindings, progress) if job.version.has("progress") else None
    if watching is not None:
        config.progress_monitor = watching
    calibrating = calibrator(job.bindings, samples) if samples is not None else None
    if calibrating is not None:
        config.int8_calibrator = calibrating
    engine = builder.build_serialized_network(network, config)
    for stopped in (progress.stopped, samples.stopped if samples is not None else None):
        if stopped is not None:
            raise stopped
    if engine is None:
        raise explained(job.messages, job.trial.model)
    return engine


def _unknown(placement: Placement | None) -> dict[str, str]:
    if placement is None:
        return {"dla_share": _NO_DLA}
    return {} if placement.n_layers else {"dla_share": "the network has no layers"}


def _parsed(named: str) -> Capability:
    major, _, minor = named.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise MeasurementError(f"{named!r} is not a compute capability", fix="write it as 8.6")
    return int(major), int(minor)


def _builder(bindings: Any, logger: Any, messages: Messages, where: str) -> Any:
    """A new builder; raises MeasurementError where there is no device to build on."""
    try:
        return bindings.Builder(logger)
    except (TypeError, RuntimeError) as error:  # what pybind11 makes of no builder
        raise explained(messages, where) from error


def _configure(job: _Job, config: Any) -> None:
    """Apply the settings; raises MeasurementError for one that this version lacks."""
    bindings, settings = job.bindings, job.trial.settings
    config.profiling_verbosity = bindings.ProfilingVerbosity.DETAILED  # names in the layers' times
    if settings.workspace_bytes is not None:
        pool = bindings.MemoryPoolType.WORKSPACE
        config.set_memory_pool_limit(pool, settings.workspace_bytes)
    if settings.optimization_level is not None:
        if not job.version.has("optimization_level"):
            raise MeasurementError(
                f"{job.version.name} has no optimisation levels", fix="leave it out"
            )
        config.builder_optimization_level = settings.optimization_level
    if settings.compute_capability is not None:
        _set_target(job, config)


def _set_target(job: _Job, config: Any) -> None:
    bindings = job.bindings
    targets = bindings.ComputeCapability.__members__ if job.version.has("named_targets") else {}
    offered = [name for name in targets if name.startswith("SM")]
    name = "SM" + "".join(map(str, job.capability))
    if name not in offered:
        can = f"for {', '.join(offered)}" if offered else "for the device that it runs on alone"
        raise MeasurementError(
            f"{job.version.name} builds {can}, not for "
            f"compute capability {job.trial.settings.compute_capability}",
            where=job.trial.model,
            fix="build on the device that runs the network",
        )
    config.num_compute_capabilities = 1
    config.set_compute_capability(targets[name], 0)


def _add_profile(job: _Job, builder: Any, config: Any, network: Any) -> Any | None:
    """The range of shapes of each input with open dimensions; None where all are fixed.

    Raises MeasurementError for an input without a range, and for a range that cannot be.
    """
    ranges = job.trial.settings.ranges
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    shapes = {tensor.name: tuple(tensor.shape) for tensor in inputs}
    is_open = {name: shape for name, shape in shapes.items() if -1 in shape}
    lacking = [name for name in is_open if name not in ranges]
    if lacking:
        raise MeasurementError(
            f"the dimensions of {', '.join(lacking)} are open, and no range is given for them",
            where=job.trial.model,
            fix="fix them, or give the least, the usual and the greatest shape",
        )
    if not is_open:
        return None
    profile = builder.create_optimization_profile()
    for name, shape in is_open.items():
        sizes = ranges[name]
        _check_range(name, shape, (sizes.least, sizes.usual, sizes.most), job.trial.model)
        profile.set_shape(name, sizes.least, sizes.usual, sizes.most)
    if config.add_optimization_profile(profile) < 0:
        raise explained(job.messages, job.trial.model)
    return profile


def _check_range(
    name: str, shape: tuple[int, ...], bounds: tuple[tuple[int, ...], ...], where: str
) -> None:
    is_of_shape = all(
        len(bound) == len(shape)
        and all(size in (-1, fixed) for fixed, size in zip(bound, shape, strict=True))
        for bound in bounds
    )
    if not is_of_shape or any(
        not least <= usual <= most for least, usual, most in zip(*bounds, strict=True)
    ):
        least, usual, most = map(list, bounds)
        raise MeasurementError(
            f"{name!r} of shape {list(shape)} (-1: open) cannot be {least} to {most}, "
            f"usually {usual}",
            where=where,
            fix="give shapes of as many dimensions, each from least over usual to most",
        )
