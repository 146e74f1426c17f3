"""An engine file by trtexec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from mansard.core.errors import MeasurementError
from mansard.core.storage.files import move_over, storage_errors
from mansard.core.storage.leftovers import temporary_folder
from mansard.inference.engines.engine import Built
from mansard.inference.engines.tensorrt.messages import Messages, remarks
from mansard.inference.engines.tensorrt.precision import Typing, check_precision, find_typing
from mansard.inference.engines.tensorrt.timing_cache import TIMING_CACHE, is_refused
from mansard.inference.engines.trtexec.program import Program, shape_option
from mansard.inference.plan import BUILDING_S, BuildSettings, BuildTrial

_MIB = 1 << 20


def build(
    program: Program,
    trial: BuildTrial,
    folder: Path,
    into: Path,
    announce: Callable[[str, float], None],
) -> Built:
    """Write ``into / trial.engine_file``, whole or not at all; raises MeasurementError."""
    path, settings = folder / trial.file, trial.settings
    with storage_errors(path):
        typing = find_typing(path, trial.precision, program.version)
    _check(program, trial, typing)
    announce(f"{trial.title}: trtexec is building", BUILDING_S)
    cache = into / TIMING_CACHE
    is_there = cache.exists()
    with temporary_folder(into) as room:
        made = room / "made.engine"
        arguments = [
            f"--onnx={path}",
            f"--saveEngine={made}",
            *_typing_flags(program, typing),
            *_setting_flags(program, settings),
            *program.optional("--profilingVerbosity=detailed"),
            *program.optional(f"--timingCacheFile={cache}"),
            *(program.optional("--skipInference") or ["--buildOnly"]),  # called so up to 8.5
        ]
        messages = program.run(arguments, BUILDING_S, trial.model).messages
        if not made.is_file():
            raise MeasurementError("trtexec ended well, but wrote no engine", where=trial.model)
        move_over(made, into / trial.engine_file)
    of_dla = settings.dla_core is not None
    return Built(
        n_layers=None,
        dla_share=None,
        timing_cache=_cache_state(program, messages, is_there=is_there),
        options=typing.options | settings.options,
        remarks=remarks(messages),
        unknown={
            "n_layers": "trtexec does not say",
            "dla_share": "trtexec does not say" if of_dla else "it is built for the GPU",
        },
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
    flags = [] if typing.allows_tf32 else ["--noTF32"]  # in every version
    if typing.is_strong:
        return flags + program.optional("--stronglyTyped")  # from 11 on there is nothing else
    if typing.precision == "fp32":
        return flags
    return ["--int8", "--fp16"] if typing.precision == "int8" else [f"--{typing.precision}"]


def _setting_flags(program: Program, settings: BuildSettings) -> list[str]:
    """The settings as options; raises MeasurementError for one that this version lacks."""
    flags, needed = [], []
    if (n_bytes := settings.workspace_bytes) is not None:
        mib = max(1, n_bytes // _MIB)
        is_new = program.has("memPoolSize")
        flags.append(f"--memPoolSize=workspace:{mib}" if is_new else f"--workspace={mib}")
    if (level := settings.optimization_level) is not None:
        needed.append(f"--builderOptimizationLevel={level}")
    if (core := settings.dla_core) is not None:
        needed.append(f"--useDLACore={core}")
        flags += ["--allowGPUFallback"] if settings.with_fallback else []
    for flag, which in (("minShapes", "least"), ("optShapes", "usual"), ("maxShapes", "most")):
        if settings.ranges:
            named = settings.ranges.items()
            shapes = ",".join(shape_option(name, getattr(each, which)) for name, each in named)
            flags.append(f"--{flag}={shapes}")
    for argument in needed:
        if not program.optional(argument):
            raise MeasurementError(
                f"trtexec of {program.version.name} has no {argument.partition('=')[0]}",
                fix="leave it out",
            )
    return flags + needed


def _cache_state(
    program: Program, messages: Messages, *, is_there: bool
) -> Literal["used", "new", "none"]:
    if not program.has("timingCacheFile"):
        return "none"
    return "used" if is_there and not is_refused(messages) else "new"
