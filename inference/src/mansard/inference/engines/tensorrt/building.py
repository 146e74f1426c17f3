"""From an ONNX file to an engine file, by TensorRT's builder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mansard.core.errors import MeasurementError
from mansard.core.files import replacing, storage_errors
from mansard.inference.engines.engine import Built
from mansard.inference.engines.tensorrt.calibration import (
    DeviceMemory,
    Samples,
    calibrator,
    open_samples,
)
from mansard.inference.engines.tensorrt.dla import Placement, check_dla, place_on_dla
from mansard.inference.engines.tensorrt.messages import (
    Messages,
    explained,
    kept_messages,
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
from mansard.inference.engines.tensorrt.progress import Progress, monitor
from mansard.inference.engines.tensorrt.timing_cache import TimingCache, file_name
from mansard.inference.engines.tensorrt.versions import Version, load_bindings, read_version
from mansard.inference.plan import BuildSettings, BuildTrial

_NO_DLA = "it is built for the GPU"


class Device(DeviceMemory, Protocol):
    """The device that an engine is built on, and for."""

    def device_name(self) -> str: ...

    def compute_capability(self) -> Capability: ...


@dataclass(frozen=True)
class _Target:
    """What an engine is built for; ``is_named``: by the settings, and it need not be here."""

    name: str
    capability: Capability
    is_named: bool


@dataclass(frozen=True)
class _Build:
    """What one build has in hand."""

    bindings: Any
    version: Version
    messages: Messages
    trial: BuildTrial
    typing: Typing
    target: _Target
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
    MeasurementError in one line, ModelError for a file that is none, StorageError.
    """
    bindings = load_bindings()
    version = read_version(bindings)
    path = folder / trial.file
    with storage_errors(path):
        typing = find_typing(path, trial.precision, version)
    target = _target(trial.settings, device)
    check_precision(typing, version, target.capability)
    with kept_messages(bindings) as (logger, messages):
        made = _Build(bindings, version, messages, trial, typing, target, folder, into)
        return _build(made, logger, device, Progress(trial.title, announce, clock))


def count_dla_cores() -> int:
    """The DLA cores of this device; raises MeasurementError where TensorRT cannot say."""
    bindings = load_bindings()
    with kept_messages(bindings) as (logger, messages):
        try:
            return int(bindings.Builder(logger).num_DLA_cores)
        except (TypeError, RuntimeError) as error:  # what pybind11 makes of no builder
            raise explained(messages, "the DLA") from error


def _build(made: _Build, logger: Any, device: Device, progress: Progress) -> Built:
    bindings, version, settings = made.bindings, made.version, made.trial.settings
    builder = _builder(made, logger)
    if settings.dla_core is not None:
        check_dla(settings, made.typing.precision, version, builder.num_DLA_cores)
    network = builder.create_network(creation_flags(bindings, made.typing, version))
    parser = bindings.OnnxParser(network, logger)
    if not parser.parse_from_file(str(made.folder / made.trial.file)):
        raise not_parsed(parser, made.messages, version, made.trial.model)
    check_types(bindings, network, made.typing)
    config = builder.create_builder_config()
    set_flags(bindings, builder, config, made.typing, version)
    _configure(made, config)
    placement = None
    if settings.dla_core is not None:
        placement = place_on_dla(bindings, config, network, settings, made.trial.model)
    profile = _add_profile(made, builder, config, network)
    options = made.typing.options | settings.options
    times = made.into / file_name(version, made.target.name)
    cache = TimingCache(config, times, version, made.messages)
    with contextlib.ExitStack() as held:
        samples = None
        if made.typing.is_calibrated:
            samples = open_samples(made.trial, made.folder, made.into, version, device)
            held.callback(samples.close)
            if profile is not None:
                config.set_calibration_profile(profile)
        engine = _run(made, builder, config, network, samples, progress)
    with replacing(made.into / made.trial.engine_file) as stream:
        stream.write(memoryview(engine))
    cache.write()
    if samples is not None:
        options["calibration"] = samples.in_words
    return Built(
        n_layers=network.num_layers,
        dla_share=placement.share if placement else None,
        timing_cache=cache.state,
        options=options,
        remarks=remarks(made.messages),
        unknown=_unknown(placement),
    )


def _run(
    made: _Build,
    builder: Any,
    config: Any,
    network: Any,
    samples: Samples | None,
    progress: Progress,
) -> Any:
    """The engine's bytes; raises MeasurementError where there is none.

    The builder calls back while it works: what it calls is held here until it has ended.
    """
    watching = monitor(made.bindings, progress) if made.version.has("progress") else None
    if watching is not None:
        config.progress_monitor = watching
    asked = calibrator(made.bindings, samples) if samples is not None else None
    if asked is not None:
        config.int8_calibrator = asked
    engine = builder.build_serialized_network(network, config)
    for stopped in (progress.stopped, samples.stopped if samples is not None else None):
        if stopped is not None:
            raise stopped
    if engine is None:
        raise explained(made.messages, made.trial.model)
    return engine


def _unknown(placement: Placement | None) -> dict[str, str]:
    if placement is None:
        return {"dla_share": _NO_DLA}
    return {} if placement.n_layers else {"dla_share": "the network has no layers"}


def _target(settings: BuildSettings, device: Device) -> _Target:
    named = settings.compute_capability
    if named is None:
        return _Target(device.device_name(), device.compute_capability(), is_named=False)
    major, _, minor = named.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise MeasurementError(f"{named!r} is no compute capability", fix="write it as 8.6")
    return _Target(f"compute capability {named}", (int(major), int(minor)), is_named=True)


def _builder(made: _Build, logger: Any) -> Any:
    """A builder; raises MeasurementError where there is no device to build on."""
    try:
        return made.bindings.Builder(logger)
    except (TypeError, RuntimeError) as error:  # what pybind11 makes of no builder
        raise explained(made.messages, made.trial.model) from error


def _configure(made: _Build, config: Any) -> None:
    """Set what the settings ask for; raises MeasurementError for what this version lacks."""
    bindings, settings = made.bindings, made.trial.settings
    config.profiling_verbosity = bindings.ProfilingVerbosity.DETAILED  # names in the layers' times
    if settings.workspace_bytes is not None:
        pool = bindings.MemoryPoolType.WORKSPACE
        config.set_memory_pool_limit(pool, settings.workspace_bytes)
    if settings.optimization_level is not None:
        if not made.version.has("optimization_level"):
            raise MeasurementError(
                f"{made.version.name} has no optimisation levels", fix="leave it out"
            )
        config.builder_optimization_level = settings.optimization_level
    if made.target.is_named:
        _set_target(made, config)


def _set_target(made: _Build, config: Any) -> None:
    bindings = made.bindings
    known = bindings.ComputeCapability.__members__ if made.version.has("named_targets") else {}
    offered = [name for name in known if name.startswith("SM")]
    name = "SM" + "".join(map(str, made.target.capability))
    if name not in offered:
        can = f"for {', '.join(offered)}" if offered else "for the device that it runs on alone"
        raise MeasurementError(
            f"{made.version.name} builds {can}, not for {made.target.name}",
            where=made.trial.model,
            fix="build where the network is to run",
        )
    config.num_compute_capabilities = 1
    config.set_compute_capability(known[name], 0)


def _add_profile(made: _Build, builder: Any, config: Any, network: Any) -> Any | None:
    """The range of shapes of each input with open dimensions; None where all are fixed.

    Raises MeasurementError for an input without a range, and for a range that cannot be.
    """
    ranges = made.trial.settings.ranges
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    shapes = {each.name: tuple(each.shape) for each in inputs}
    is_open = {name: shape for name, shape in shapes.items() if -1 in shape}
    lacking = [name for name in is_open if name not in ranges]
    if lacking:
        raise MeasurementError(
            f"the dimensions of {', '.join(lacking)} are open, and no range is given for them",
            where=made.trial.model,
            fix="fix them, or give the least, the usual and the greatest shape",
        )
    if not is_open:
        return None
    profile = builder.create_optimization_profile()
    for name, shape in is_open.items():
        given = ranges[name]
        _check_range(name, shape, (given.least, given.usual, given.most), made.trial.model)
        profile.set_shape(name, given.least, given.usual, given.most)
    if config.add_optimization_profile(profile) < 0:
        raise explained(made.messages, made.trial.model)
    return profile


def _check_range(
    name: str, shape: tuple[int, ...], given: tuple[tuple[int, ...], ...], where: str
) -> None:
    is_of_shape = all(
        len(each) == len(shape)
        and all(size in (-1, own) for own, size in zip(each, shape, strict=True))
        for each in given
    )
    if not is_of_shape or any(
        not least <= usual <= most for least, usual, most in zip(*given, strict=True)
    ):
        least, usual, most = map(list, given)
        raise MeasurementError(
            f"{name!r} of shape {list(shape)} (-1: open) cannot be {least} to {most}, "
            f"usually {usual}",
            where=where,
            fix="give shapes of as many dimensions, each from least over usual to most",
        )
