"""How a container gets at the GPU: NVIDIA's runtime, Docker's device requests, or CDI.

Sources: NVIDIA's documentation of its container toolkit (on Jetson the runtime mounts what
its CSV files list, which device requests do not), Docker's of CDI (25 and newer; on by
itself from 28.3 on). Podman's Docker API took neither runtime nor device requests in 4.9
(seen by others); from which version on it takes CDI is not known, so the probe decides.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from mansard.containers.engine import NVIDIA_RUNTIME, EngineFacts
from mansard.containers.engine_errors import SPECIFICATION, TOOLKIT
from mansard.core.errors import ContainerError
from mansard.core.records import MachineIdentity

CDI_VENDOR = "nvidia.com/gpu"
AccessKind = Literal["none", "runtime", "requests", "cdi"]
GpuKind = Literal["none", "jetson", "card"]


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The way a container gets its GPU, and why this one."""

    kind: AccessKind
    gpu: GpuKind
    why: str
    device: str = "all"  # or the number of a card, or the UUID of a card or MIG slice


NO_GPU = Access(kind="none", gpu="none", why="the kernels run on the CPU")


def gpu_kind(machine: MachineIdentity) -> GpuKind:
    """Which GPU kernels would run on: a simulated board's run on the CPU of the machine here."""
    if machine.is_simulated:
        return "none"
    if machine.kind == "jetson":
        return "jetson"
    return "card" if machine.accelerators or machine.kind == "gpu" else "none"


def choose_access(facts: EngineFacts, gpu: GpuKind, device: str = "all") -> Access:
    """The way for this engine and this kind of GPU; raises ContainerError where there is none."""
    if gpu == "none":
        return NO_GPU
    kind, why = _choose(facts, gpu)
    return Access(kind=kind, gpu=gpu, why=why, device=device)


def _choose(facts: EngineFacts, gpu: GpuKind) -> tuple[AccessKind, str]:
    if facts.is_podman:
        return "cdi", "podman knows no other way; its Docker API may leave it out all the same"
    if facts.has_nvidia_runtime:
        if gpu == "jetson":
            return "runtime", "the runtime called nvidia brings a Jetson's driver and devices"
        return "requests", "NVIDIA's runtime is installed, so Docker's own GPU request works"
    if facts.cdi_folders or facts.cdi_devices:
        _check_described(facts)
        return "cdi", "there is no runtime called nvidia, but CDI is on"
    raise ContainerError(
        f"{facts.name} {facts.version} has neither a runtime called nvidia nor CDI: "
        "no container gets at the GPU",
        fix=TOOLKIT,
    )


def _check_described(facts: EngineFacts) -> None:
    """Engines that list what they found must have found a GPU; older ones do not list it."""
    found = facts.cdi_devices
    if found is not None and not any(name.startswith(f"{CDI_VENDOR}=") for name in found):
        raise ContainerError(
            f"the engine has CDI on, but found no {CDI_VENDOR} in {', '.join(facts.cdi_folders)}",
            fix=SPECIFICATION,
        )


def access_environment(access: Access) -> dict[str, str]:
    """Variables that tell NVIDIA's runtime what to bring into the container."""
    if access.kind not in {"runtime", "requests"}:
        return {}
    # A card needs no graphics; on Jetson the parts are not told apart by all releases.
    parts = "all" if access.gpu == "jetson" else "compute,utility"
    return {"NVIDIA_VISIBLE_DEVICES": access.device, "NVIDIA_DRIVER_CAPABILITIES": parts}


def access_arguments(access: Access) -> dict[str, object]:
    """Arguments for creating a container through the Docker SDK."""
    from docker.types import DeviceRequest

    if access.kind == "runtime":
        return {"runtime": NVIDIA_RUNTIME}
    if access.kind == "cdi":
        name = f"{CDI_VENDOR}={access.device}"
        return {"device_requests": [DeviceRequest(driver="cdi", device_ids=[name])]}
    if access.kind == "requests":
        which = {"count": -1} if access.device == "all" else {"device_ids": [access.device]}
        return {"device_requests": [DeviceRequest(capabilities=[["gpu"]], **which)]}
    return {}
