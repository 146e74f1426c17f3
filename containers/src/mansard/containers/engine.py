"""The container engine: where it listens, and what it can do."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from mansard.containers.answers import TIMEOUT_S, bounded_client
from mansard.containers.engine_errors import (
    SPECIFICATION,
    START_ENGINE,
    TOOLKIT,
    explain,
    explained,
)
from mansard.core.errors import ContainerError, MansardError, UsageError
from mansard.core.extras import require_extra
from mansard.core.records import MachineIdentity

OLDEST_API = (1, 41)  # Docker 20.10, podman 4
NVIDIA_RUNTIME = "nvidia"
_GRAMMAR = "write unix:///…/docker.sock; a board's is forwarded with HOST=user@board"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}  # Go's names, which podman uses


class EngineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of itself."""

    name: str  # Docker or podman
    version: str
    api_version: str
    architecture: str  # aarch64, x86_64
    kernel: str
    runtimes: tuple[str, ...]
    cdi_folders: tuple[str, ...]  # where it looks for descriptions; empty: CDI is off
    cdi_devices: tuple[str, ...] | None  # those it has found; None where it does not tell
    is_rootless: bool
    cgroup_version: str | None
    storage: str
    data_root: str
    is_local: bool  # runs on this very machine: same name, same kernel

    @property
    def has_nvidia_runtime(self) -> bool:
        """Whether NVIDIA's container runtime is registered."""
        return NVIDIA_RUNTIME in self.runtimes

    @property
    def is_podman(self) -> bool:
        """Whether it is podman, whose Docker API leaves out GPUs in silence."""
        return self.name == "podman"

    def free_bytes(self) -> int | None:
        """Free disk below the engine's data; None where it cannot be seen from here."""
        if not self.is_local or not self.data_root:
            return None
        try:
            return shutil.disk_usage(self.data_root).free
        except (OSError, ValueError):  # a name with a zero byte
            return None


@dataclass(frozen=True)
class ContainerEngine:
    """A connected engine. ``client`` is the Docker SDK's."""

    address: str
    client: Any
    facts: EngineFacts


@contextmanager
def connect(
    address: str | None = None, environment: Mapping[str, str] = os.environ
) -> Iterator[ContainerEngine]:
    """The engine at ``address``, or the first that answers; raises ContainerError.

    Without an address: DOCKER_HOST, Docker's sockets, podman's. What the first of them says
    is raised where none answers. Without the Docker SDK: MissingLibrary.
    """
    require_extra("boards")
    first: MansardError | None = None
    for place in (address,) if address else addresses(environment):
        try:
            _check_tls(place, environment)
            engine = _open(place)
        except MansardError as error:
            first = first or error
            continue
        try:
            yield engine
        finally:
            engine.client.close()
        return
    raise first or ContainerError("there is no container engine", fix=START_ENGINE)


def addresses(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Where an engine may listen, in the order it is asked."""
    if named := environment.get("DOCKER_HOST"):
        return (named,)
    user_folder = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    places = [
        f"{user_folder}/docker.sock",
        f"{user_folder}/podman/podman.sock",
        "/run/podman/podman.sock",
    ]
    there = [f"unix://{place}" for place in places if Path(place).exists()]
    # Docker's usual one is asked, and named in the error, even where there is nothing.
    return ("unix:///var/run/docker.sock", *there)


def _open(address: str) -> ContainerEngine:
    _check_address(address)
    with explained(address):
        client = bounded_client(address, version="auto")
    try:
        with explained(address):
            facts = read_facts(client.version(), client.info())
            _check_facts(facts, address)
    except BaseException:
        client.close()
        raise
    return ContainerEngine(address, client, facts)


def _check_address(address: str) -> None:
    """Raise one clear error for a socket that is missing or not permitted."""
    if address.startswith(("tcp://", "http://")):
        _check_url(address)
        return
    if not address.startswith("unix:///"):
        raise UsageError("an engine is reached by a socket here", where=address, fix=_GRAMMAR)
    path = address.removeprefix("unix://")
    # Docker refuses longer ones too: struct sockaddr_un holds 108 bytes, one of them the end.
    if len(os.fsencode(path)) > 107:
        raise ContainerError(
            "the path of the socket is longer than 107 bytes", where=address, fix="shorten it"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(TIMEOUT_S)
        try:
            probe.connect(path)
        except OSError as error:
            raise explain(error, address) from error


def _check_tls(address: str, environment: Mapping[str, str]) -> None:
    """Refuse a connection without TLS where TLS is asked for."""
    asked = [name for name in ("DOCKER_TLS_VERIFY", "DOCKER_TLS") if environment.get(name)]
    if asked and address.startswith(("tcp://", "http://")):
        raise UsageError(
            f"{asked[0]} is set, and TLS is not supported",
            where=address,
            fix="reach the engine over ssh (HOST=user@board) or by its socket (DOCKER_HOST="
            "unix:///var/run/docker.sock)",
        )


def _check_url(address: str) -> None:
    """Raises UsageError for a port that is no number or a bracket that is not closed."""
    if "@" in address:
        raise UsageError(
            "an engine takes no user and no password in its address", where=address, fix=_GRAMMAR
        )
    try:
        is_url = bool(urlsplit(address).hostname) and urlsplit(address).port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise UsageError("is not an address", where=address, fix=_GRAMMAR)


class _Version(msgspec.Struct, rename="pascal"):
    """The fields read from ``/version``; an engine may leave out any of them, or send null."""

    components: list[dict[str, Any]] | None = None
    version: str | None = None
    api_version: str | None = None
    arch: str | None = None


class _Info(msgspec.Struct, rename="pascal"):
    """The fields read from ``/info``."""

    name: str | None = None
    kernel_version: str | None = None
    server_version: str | None = None
    architecture: str | None = None
    runtimes: dict[str, Any] | None = None
    cdi_folders: list[str] | None = msgspec.field(default=None, name="CDISpecDirs")
    discovered_devices: list[dict[str, Any]] | None = None
    security_options: list[str] | None = None
    rootless: bool | None = None  # podman 4.3 says it only here
    cgroup_version: str | int | None = None
    driver: str | None = None
    docker_root_dir: str | None = None


def read_facts(version: object, info: object) -> EngineFacts:
    """Facts from the engine's answers to ``/version`` and ``/info``; what is missing is empty.

    Raises ValueError for an answer of another kind.
    """
    its, about = msgspec.convert(version, _Version), msgspec.convert(info, _Info)
    is_podman = any("podman" in str(record.get("Name")).lower() for record in its.components or ())
    kernel, devices = about.kernel_version or "", about.discovered_devices
    architecture = about.architecture or its.arch or ""
    here = os.uname()
    return EngineFacts(
        name="podman" if is_podman else "Docker",
        version=its.version or about.server_version or "?",
        api_version=its.api_version or "0.0",
        architecture=ARCHITECTURES.get(architecture, architecture),
        kernel=kernel,
        runtimes=tuple(sorted(about.runtimes or ())),
        cdi_folders=tuple(about.cdi_folders or ()),
        cdi_devices=None
        if devices is None
        else tuple(str(record.get("ID")) for record in devices if record.get("Source") == "cdi"),
        is_rootless="name=rootless" in (about.security_options or ()) or about.rootless is True,
        cgroup_version=str(about.cgroup_version) if about.cgroup_version else None,
        storage=about.driver or "",
        data_root=about.docker_root_dir or "",
        is_local=(about.name, kernel) == (here.nodename, here.release),
    )


def _check_facts(facts: EngineFacts, address: str) -> None:
    numbers = tuple(int(part) for part in facts.api_version.split(".") if part.isdecimal())
    if numbers < OLDEST_API:
        raise ContainerError(
            f"{facts.name} {facts.version} speaks API {facts.api_version}, too old",
            where=address,
            fix="update it: Docker 20.10 (December 2020), podman 4, or newer",
        )


# How a container gets at the GPU: NVIDIA's runtime, Docker's device requests, or CDI.
#
# Sources: NVIDIA's documentation of its container toolkit (on Jetson the runtime mounts what
# its CSV files list, which device requests do not), Docker's of CDI (25 and newer; on by
# itself from 28.3 on). Podman's Docker API took neither runtime nor device requests in 4.9
# (seen by others); from which version on it takes CDI is not known, so the probe decides.


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
    devices = facts.cdi_devices
    if devices is not None and not any(name.startswith(f"{CDI_VENDOR}=") for name in devices):
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
