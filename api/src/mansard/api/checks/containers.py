"""Checks of what runs networks: engines, their counters, and containers with images for both."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.api.checks import Check, failed, missing, ok, warning
from mansard.containers.engine import ContainerEngine, GpuKind, choose_access, connect, gpu_kind
from mansard.containers.images.building import ready_image
from mansard.containers.images.fitting import choose_image
from mansard.containers.images.table import user_table
from mansard.containers.settings import device_groups, find_devices
from mansard.core.errors import ContainerError, MansardError
from mansard.core.onnx_runtime import install_remedy
from mansard.core.records import MachineIdentity
from mansard.core.storage.files import check_descriptors
from mansard.core.text import masked
from mansard.inference.counters.ncu import find_ncu
from mansard.inference.engines import ENGINES, find_engine
from mansard.inference.engines.tensorrt.building import count_dla_cores

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe

_REMEDIES = {
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
    has_gpu = bool(machine.accelerators) and not machine.is_simulated
    for engine in map(find_engine, ENGINES):
        probe = engine.probe()
        if probe.version is None and engine.name != "ort" and not has_gpu:
            continue
        remedies = _REMEDIES | (_ON_JETSON if machine.kind == "jetson" else {})
        remedies["ort"] = install_remedy(machine.kind, has_gpu=has_gpu)
        yield _check(engine.name, probe, remedies[engine.name], has_gpu=has_gpu)


def _check(name: str, probe: EngineProbe, remedy: str, *, has_gpu: bool) -> Check:
    if probe.providers is None:
        reason = probe.unknown["providers"]
        if probe.version is None:
            return missing(name, reason, remedy)
        return missing(name, f"{probe.version}, but {reason}", _NO_GPU)
    absent = "".join(f"; no {provider}: {reason}" for provider, reason in probe.absent.items())
    cores = _dla_cores() if name == "tensorrt" else ""
    detail = f"{probe.version}, runs on {', '.join(probe.providers)}{cores}{absent}"
    if has_gpu and probe.providers == ("cpu",):
        return missing(name, detail, _NOT_ON_CARD)
    return ok(name, detail)


def _dla_cores() -> str:
    try:
        n_cores = count_dla_cores()
    except MansardError as error:
        return f"; DLA cores unknown: {error.what}"
    return f", {n_cores or 'no'} DLA core{'' if n_cores == 1 else 's'}"


# A module parameter of the driver for cards: https://developer.nvidia.com/ERR_NVGPUCTRPERM
_RESTRICTED = "RmProfilingAdminOnly: 1"


def check_counters(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """Nsight Compute, and whether this user may read counters; only where there is a GPU, or it."""
    has_gpu = bool(machine.accelerators) and not machine.is_simulated
    try:
        ncu = find_ncu()
    except MansardError as error:
        if has_gpu:
            yield missing("ncu", error.what, error.fix or "install it")
        return
    detail = f"Nsight Compute {ncu.version}"
    try:
        parameters = (root / "proc/driver/nvidia/params").read_text(errors="replace")
    except OSError as error:  # a Jetson's driver has none: there it is root
        check_descriptors(error, root / "proc/driver/nvidia/params")
        parameters = _RESTRICTED if machine.kind == "jetson" else ""
    if _RESTRICTED in parameters and os.geteuid() != 0:
        fix = "run 'sudo -E \"$(which mansard)\" ncu run'; this user can only import counters"
        yield warning("ncu", f"{detail}; this user may not read counters", fix)
    else:
        yield ok("ncu", detail)


_LOCAL = "or measure without a container: LOCAL=1"
_WAYS = {"runtime": "by the runtime nvidia", "requests": "by Docker's request", "cdi": "by CDI"}
# An image with CUDA's libraries takes 6 to 12 GB unpacked, and as much again while it is built.
_ROOM_BYTES = {"none": 3e9, "jetson": 20e9, "card": 20e9}


def check_containers(root: Path, machine: MachineIdentity) -> Iterator[Check]:
    """What there is to run containers with, from the engine to the image that fits.

    A machine without an NVIDIA GPU is measured without a container: there a missing engine
    is no fault.
    """
    gpu = gpu_kind(machine)
    try:
        with connect() as engine:
            yield _check_engine(engine, gpu)
            if gpu != "none":
                yield _check_access(engine, gpu)
                yield _check_devices(root, gpu)
            yield _check_image(engine, machine)
            if gpu == "jetson":
                yield _check_image(engine, machine, "TensorRT image", ("tensorrt", "trtexec"))
            yield _check_disk(engine, gpu)
    except MansardError as error:
        if machine.kind == "jetson" or machine.accelerators:
            detail = f"{error.where}: {error.what}" if error.where else error.what
            yield missing("containers", detail, error.fix or _LOCAL)
        else:
            yield ok("containers", f"none needed here ({error.what.partition(':')[0]})")


def _check_engine(engine: ContainerEngine, gpu: GpuKind) -> Check:
    facts = engine.facts
    parts = [f"{facts.name} {facts.version} at {masked(engine.address)}"]
    parts += [f"storage {facts.storage}"] if facts.storage else []
    parts += ["rootless"] if facts.is_rootless else []
    detail = ", ".join(parts)
    if facts.is_podman and gpu != "none":
        return warning(
            "containers",
            f"{detail}: its Docker API silently leaves GPUs out (seen up to 4.9)",
            f"use Docker, {_LOCAL}",
        )
    return ok("containers", detail)


def _check_access(engine: ContainerEngine, gpu: GpuKind) -> Check:
    facts = engine.facts
    runtime = "there" if facts.has_nvidia_runtime else "not there"
    cdi = f"looks into {', '.join(facts.cdi_folders)}" if facts.cdi_folders else "off"
    seen = f"runtime nvidia {runtime}, CDI {cdi}"
    try:
        access = choose_access(facts, gpu)
    except ContainerError as error:
        return missing("GPU in containers", error.what, f"{error.fix}; {_LOCAL}")
    return ok("GPU in containers", f"{_WAYS[access.kind]}: {access.why} ({seen})")


def _check_devices(root: Path, gpu: GpuKind) -> Check:
    devices = find_devices(root)
    if not devices:
        tool = "tegrastats" if gpu == "jetson" else "nvidia-smi"
        return missing(
            "GPU devices",
            "none of the GPU's devices is in /dev: its driver is not loaded",
            f"look what '{tool}' says, and run this on the machine itself",
        )
    groups = device_groups(root)
    access = f"of groups {', '.join(map(str, groups))}, passed on" if groups else "open to all"
    return ok("GPU devices", f"{len(devices)} in /dev, {access}")


def _check_image(
    engine: ContainerEngine,
    machine: MachineIdentity,
    name: str = "container image",
    engines: tuple[str, ...] = (),
) -> Check:
    """The image that fits; with ``engines`` the one for networks on the first available."""
    try:
        fit = choose_image(machine, user_table(), engines=engines)
        ready = ready_image(engine, fit.image)
    except MansardError as error:
        return failed(name, error, "name one in images.toml: docs/use/containers.md")
    if ready is None:
        first = "'mansard measure MODEL'" if engines else "'mansard bench'"
        return missing(
            name,
            f"{fit.image.name} fits ({fit.why}), but is not built yet",
            f"'mansard data image build {fit.image.name}' does it, and so does the first {first}",
        )
    return ok(name, f"{ready.tag}: {fit.why}")


def _check_disk(engine: ContainerEngine, gpu: GpuKind) -> Check:
    free_bytes = engine.facts.free_bytes()
    if free_bytes is None:
        return missing(
            "image disk",
            f"{engine.facts.data_root or 'the engine'} cannot be seen from here",
            f"an image needs {_ROOM_BYTES[gpu] / 1e9:.0f} GB while it is built: look there",
        )
    free = f"{free_bytes / 1e9:.1f} GB free in {engine.facts.data_root}"
    if free_bytes < _ROOM_BYTES[gpu]:
        return warning(
            "image disk",
            f"{free}; an image needs {_ROOM_BYTES[gpu] / 1e9:.0f} GB while it is built",
            "'docker system prune' removes what is not in use; or move data-root to a larger disk",
        )
    return ok("image disk", free)
