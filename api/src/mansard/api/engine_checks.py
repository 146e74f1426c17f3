"""What ``doctor`` checks of engines: which can run networks here, and on what; and of counters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.api.checks import Check, missing, ok, warning
from mansard.core.errors import MansardError
from mansard.core.records import MachineIdentity
from mansard.core.storage.files import check_descriptors

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe

_REMEDIES = {
    "ort": "install onnxruntime; until then networks are predicted, but not run",
    "tensorrt": "install TensorRT from NVIDIA's package index",
    "trtexec": "install TensorRT's programs, or set PATH to where trtexec lies",
}
_ON_JETSON = {
    "tensorrt": "measure in a container, whose image has it, or use JetPack's Python; with "
    "JetPack 5 use --engine trtexec",
    "trtexec": "measure in a container, whose image has it, or install JetPack's package tensorrt",
}
_NOT_ON_CARD = (
    "install onnxruntime-gpu with CUDA and cuDNN; until then networks run on the card by TensorRT "
    "alone"
)
_NO_GPU = "load the GPU's driver: 'nvidia-smi' (a board: 'tegrastats') must answer"


def check_engines(machine: MachineIdentity) -> Iterator[Check]:
    """Every engine; those that need a GPU only where there is one, or where they are installed."""
    from mansard.inference.engines import ENGINES, find_engine

    has_gpu = bool(machine.accelerators) and not machine.is_simulated
    for engine in map(find_engine, ENGINES):
        probe = engine.probe()
        if probe.version is None and engine.name != "ort" and not has_gpu:
            continue
        remedies = _REMEDIES | (_ON_JETSON if machine.kind == "jetson" else {})
        yield _check(engine.name, probe, remedies[engine.name], has_gpu=has_gpu)


def _check(name: str, probe: EngineProbe, remedy: str, *, has_gpu: bool) -> Check:
    if probe.providers is None:
        reason = probe.unknown["providers"]
        if probe.version is None:
            return missing(name, reason, remedy)
        return missing(name, f"{probe.version}, but {reason}", _NO_GPU)
    absent = "".join(f"; no {each}: {reason}" for each, reason in probe.absent.items())
    cores = _dla_cores() if name == "tensorrt" else ""
    told = f"{probe.version}, runs on {', '.join(probe.providers)}{cores}{absent}"
    if has_gpu and probe.providers == ("cpu",):
        return missing(name, told, _NOT_ON_CARD)
    return ok(name, told)


def _dla_cores() -> str:
    from mansard.inference.engines.tensorrt.building import count_dla_cores

    try:
        n_cores = count_dla_cores()
    except MansardError as error:
        return f"; DLA cores unknown: {error.what}"
    return f", {n_cores or 'no'} DLA core{'' if n_cores == 1 else 's'}"


# A module parameter of the driver for cards: https://developer.nvidia.com/ERR_NVGPUCTRPERM
_RESTRICTED = "RmProfilingAdminOnly: 1"


def check_counters(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """Nsight Compute, and whether this user may read counters; only where there is a GPU, or it."""
    from mansard.inference.counters.ncu import find_ncu

    has_gpu = bool(machine.accelerators) and not machine.is_simulated
    try:
        ncu = find_ncu()
    except MansardError as error:
        if has_gpu:
            yield missing("ncu", error.what, error.fix or "install it")
        return
    told = f"Nsight Compute {ncu.version}"
    try:
        parameters = (root / "proc/driver/nvidia/params").read_text(errors="replace")
    except OSError as error:  # a Jetson's driver has none: there it is root
        check_descriptors(error, root / "proc/driver/nvidia/params")
        parameters = _RESTRICTED if machine.kind == "jetson" else ""
    if _RESTRICTED in parameters and os.geteuid() != 0:
        fix = "run 'sudo -E \"$(which mansard)\" ncu run'; this user can only import counters"
        yield warning("ncu", f"{told}; this user may not read counters", fix)
    else:
        yield ok("ncu", told)
