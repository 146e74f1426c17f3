"""An engine file by trtexec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from mansard.core.errors import MeasurementError, SchemaError
from mansard.core.files import move_over, storage_errors
from mansard.core.leftovers import temporary_folder
from mansard.core.tensorrt_files import ExportedLayer
from mansard.inference.engines.engine import Built
from mansard.inference.engines.tensorrt.layers import trace
from mansard.inference.engines.tensorrt.precision import Typing, check_precision, find_typing
from mansard.inference.engines.tensorrt.refusals import remarks
from mansard.inference.engines.trtexec.exports import read_layers
from mansard.inference.engines.trtexec.program import Program, shape_option
from mansard.inference.plan import BUILDING_S, BuildSettings, BuildTrial

_MIB = 1 << 20
_REFUSED_CACHE = "timing cache will not be used"


def build(
    program: Program,
    trial: BuildTrial,
    folder: Path,
    into: Path,
    announce: Callable[[str, float], None],
) -> Built:
    """Write ``into / trial.engine_file``, whole or not at all; raises MeasurementError."""
    path = folder / trial.file
    with storage_errors(path):
        typing = find_typing(path, trial.precision, program.version)
    _check(program, trial, typing)
    announce(f"{trial.title}: trtexec is building", BUILDING_S)
    cache = into / f"timing-trtexec-{program.version.text}.cache"
    known = cache.exists()
    with temporary_folder(into) as room:
        made, listed = room / "made.engine", room / "layers.json"
        arguments = [
            f"--onnx={path}",
            f"--saveEngine={made}",
            *_typing_flags(program, typing),
            *_setting_flags(program, trial.settings),
            *_optional(program, f"--exportLayerInfo={listed}"),
            *_optional(program, "--profilingVerbosity=detailed"),
            *_optional(program, f"--timingCacheFile={cache}"),
            *(_optional(program, "--skipInference") or ["--buildOnly"]),  # called so up to 8.5
        ]
        printed = program.run(arguments, BUILDING_S, trial.model)
        layers = _layers(listed)
        if not made.is_file():
            raise MeasurementError("trtexec ended well, but wrote no engine", where=trial.model)
        move_over(made, into / trial.engine_file)
    is_refused = any(_REFUSED_CACHE in text for text in printed.messages.warnings)
    share = _dla_share(layers) if trial.settings.dla_core is not None else None
    return Built(
        n_layers=len(layers) if layers else None,
        dla_share=share,
        timing_cache=_cache_state(program, known=known and not is_refused),
        options=_options(typing, trial.settings),
        remarks=remarks(printed.messages),
        unknown=_unknown(trial.settings, layers, share),
    )


def _check(program: Program, trial: BuildTrial, typing: Typing) -> None:
    """Raise MeasurementError for what this trtexec cannot build."""
    check_precision(typing, program.version, None)
    if typing.is_calibrated:
        raise MeasurementError(
            "trtexec cannot calibrate int8: it would take random scales",
            where=trial.model,
            fix="give a file with QuantizeLinear nodes, or use the engine tensorrt",
        )
    if trial.settings.compute_capability is not None:
        raise MeasurementError("trtexec builds for the device that it runs on alone")


def _typing_flags(program: Program, typing: Typing) -> list[str]:
    if typing.is_strong:
        return _optional(program, "--stronglyTyped")  # from 11 on there is nothing else
    if typing.precision == "fp32":
        return []
    return ["--int8", "--fp16"] if typing.precision == "int8" else [f"--{typing.precision}"]


def _setting_flags(program: Program, settings: BuildSettings) -> list[str]:
    """The settings as options; raises MeasurementError for one that this version lacks."""
    flags = []
    if (n_bytes := settings.workspace_bytes) is not None:
        mib = max(1, n_bytes // _MIB)
        is_new = program.has("memPoolSize")
        flags.append(f"--memPoolSize=workspace:{mib}" if is_new else f"--workspace={mib}")
    if (level := settings.optimization_level) is not None:
        flags += _needed(program, f"--builderOptimizationLevel={level}")
    if (core := settings.dla_core) is not None:
        flags += _needed(program, f"--useDLACore={core}")
        flags += ["--allowGPUFallback"] if settings.with_fallback else []
    for flag, which in (("minShapes", "least"), ("optShapes", "usual"), ("maxShapes", "most")):
        if settings.ranges:
            named = settings.ranges.items()
            shapes = ",".join(shape_option(name, getattr(each, which)) for name, each in named)
            flags.append(f"--{flag}={shapes}")
    return flags


def _optional(program: Program, argument: str) -> list[str]:
    """The argument where this version knows it."""
    return [argument] if program.has(_flag_of(argument)) else []


def _needed(program: Program, argument: str) -> list[str]:
    if not program.has(_flag_of(argument)):
        raise MeasurementError(
            f"trtexec of {program.version.name} has no --{_flag_of(argument)}", fix="leave it out"
        )
    return [argument]


def _flag_of(argument: str) -> str:
    return argument.removeprefix("--").partition("=")[0]


def _layers(path: Path) -> tuple[ExportedLayer, ...]:
    try:
        return read_layers(path) if path.exists() else ()
    except SchemaError:
        return ()


def _dla_share(layers: tuple[ExportedLayer, ...]) -> float | None:
    """The fraction of the network's nodes, by their labels, that are in layers of a DLA."""
    placed = [
        (layer.is_on_dla, node)
        for layer, nodes in zip(layers, trace(layers), strict=True)
        for node in nodes or ()
    ]
    return sum(on_dla for on_dla, _ in placed) / len(placed) if placed else None


def _cache_state(program: Program, *, known: bool) -> Literal["used", "new", "none"]:
    if not program.has("timingCacheFile"):
        return "none"
    return "used" if known else "new"


def _options(typing: Typing, settings: BuildSettings) -> dict[str, str]:
    found = {"types": typing.in_words}
    if settings.ranges:
        found["open"] = ",".join(settings.ranges)  # what loads the file gives their shapes
    if settings.optimization_level is not None:
        found["optimization_level"] = str(settings.optimization_level)
    if settings.workspace_bytes is not None:
        found["workspace_bytes"] = str(settings.workspace_bytes)
    if settings.dla_core is not None:
        found["dla_core"] = str(settings.dla_core)
        found["dla_rest"] = "on the GPU" if settings.with_fallback else "refused"
    return found


def _unknown(
    settings: BuildSettings, layers: tuple[ExportedLayer, ...], share: float | None
) -> dict[str, str]:
    unknown = {} if layers else {"n_layers": "trtexec did not export them"}
    if settings.dla_core is None:
        unknown["dla_share"] = "it is built for the GPU"
    elif share is None:
        unknown["dla_share"] = "trtexec does not say which layers are on the DLA"
    return unknown
