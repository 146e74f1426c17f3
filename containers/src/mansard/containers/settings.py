"""The rights of a measuring container, as arguments for creating it: as few as possible.

No network, no capability, no new privileges, a root that cannot be written, no volume that
can be written: results leave through the container's standard output alone. One that builds engine
files measures nothing, and may write to one volume.

It runs as the caller where that is enough, and as root without capabilities where not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mansard.containers.engine import (
    NO_GPU,
    Access,
    ContainerEngine,
    GpuKind,
    access_arguments,
    access_environment,
    choose_access,
    gpu_kind,
)
from mansard.core.errors import UsageError
from mansard.core.records import MachineIdentity, Processor
from mansard.device.system import SYSTEM_ROOT, glob

NOBODY = 65534  # the user and group without files, on every Linux
# Devices a GPU's libraries open: of Jetson's older and newer drivers, and of cards.
_DEVICES = (
    "nvhost*",
    "nvmap",
    "nvgpu/*/*",
    "nvsciipc",
    "nvidia*",
    "nvidia-caps/*",
    "dri/render*",
)


class User(msgspec.Struct, frozen=True, kw_only=True):
    """The ids of user and group, and the reason for them."""

    uid: int
    gid: int
    why: str

    @property
    def text(self) -> str:
        """In the engine's format."""
        return f"{self.uid}:{self.gid}"


def choose_user(
    uid: int,
    gid: int,
    *,
    is_rootless: bool = False,
    needed: Iterable[Path] = (),
    environment: Mapping[str, str] = os.environ,
) -> User:
    """The user for a container started by ``uid``.

    ``needed`` are files and folders the measurement reads. A caller who is root hands on who
    called sudo, or nobody at all; only where that user could not read what is needed, the
    container runs as root, and still without a capability.
    """
    if is_rootless:
        return User(uid=0, gid=0, why="a rootless engine's root is the caller, outside")
    caller = User(uid=uid, gid=gid, why="the caller")
    if uid != 0:
        return caller
    other = _who_called(environment)
    hidden = next((path for path in needed if not can_read(path, other.uid, other.gid)), None)
    return other if hidden is None else _who_can_read(hidden, caller)


def _who_can_read(path: Path, caller: User) -> User:
    """The caller, or the owner of files that even root cannot read without a capability."""
    why = f"{path} is not for others"
    if can_read(path, caller.uid, caller.gid):
        return msgspec.structs.replace(caller, why=why)
    status = path.stat()
    return User(uid=status.st_uid, gid=status.st_gid, why=why)


def _who_called(environment: Mapping[str, str]) -> User:
    numbers = [environment.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if all(number.isdecimal() and 0 < int(number) < NOBODY for number in numbers):
        return User(uid=int(numbers[0]), gid=int(numbers[1]), why="who called sudo")
    return User(uid=NOBODY, gid=NOBODY, why="root measures without rights")


def can_read(path: Path, uid: int, gid: int) -> bool:
    """Whether the mode of ``path`` permits a user without capabilities to read it.

    Folders above it do not count: only what is mounted is seen inside. What is not there
    is not in the way.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    want = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(status.st_mode) else 0)
    if status.st_uid == uid:
        return (status.st_mode >> 6) & want == want
    if status.st_gid == gid:
        return (status.st_mode >> 3) & want == want
    return status.st_mode & want == want


def device_groups(root: Path = Path("/")) -> tuple[int, ...]:
    """The ids of the groups that may use the GPU's devices where others may not.

    On Jetson these are mostly ``video`` and ``render``; their numbers differ between
    systems, so those of the files are taken.
    """
    groups = set()
    for path in find_devices(root):
        try:
            status = path.stat()
        except OSError:
            continue
        is_closed = not status.st_mode & stat.S_IROTH
        if is_closed and status.st_mode & stat.S_IRGRP and status.st_gid != 0:
            groups.add(status.st_gid)
    return tuple(sorted(groups))


def find_devices(root: Path = Path("/")) -> tuple[Path, ...]:
    """The device files of NVIDIA GPUs, of Jetsons and of cards."""
    paths = (path for pattern in _DEVICES for path in glob(root / "dev", pattern))
    return tuple(path for path in paths if not path.is_dir())


BOARD = PurePosixPath("/board")  # where a simulated board's files lie in the container
FILES = PurePosixPath("/files")  # where the files lie that a job names, such as networks
OUTPUTS = PurePosixPath("/outputs")  # where it may write engine files
BUILT = "built"  # the folder in it that every user may write
DEBUG_FILES = PurePosixPath("/sys/kernel/debug")  # a Jetson's memory clock, for root only
OWNER_LABEL = "mansard.owner"
RUN_LABEL = "mansard.run"
_SCRATCH = "rw,nosuid,nodev,size=1g,mode=1777"  # compilers' caches; in memory, gone with it
_MAX_PROCESSES = 1024  # threads count: one for each CPU, some of CUDA's own
# Compilers look for a home and a cache folder; there is no other place to write.
_ENVIRONMENT = {
    "HOME": "/tmp",  # noqa: S108 - of the container, which is alone in it
    "CUPY_CACHE_DIR": "/tmp/cupy",  # noqa: S108
    "CUDA_CACHE_PATH": "/tmp/cuda",  # noqa: S108
    "NUMBA_CACHE_DIR": "/tmp/numba",  # noqa: S108
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
}


class Mount(msgspec.Struct, frozen=True):
    """A folder of the host that the container can read."""

    source: Path
    target: PurePosixPath


class ContainerLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """The program, the image, the user, and the mounts of a container."""

    image: str  # its name or its id
    command: tuple[str, ...]
    user: User
    access: Access = NO_GPU
    groups: tuple[int, ...] = ()  # that own the GPU's devices
    board: Path | None = None  # a simulated board's root
    with_debug_files: bool = False
    mounts: tuple[Mount, ...] = ()
    files: str | None = None  # the volume with the files of a job
    outputs: str | None = None  # of the one that it may write, to build engine files
    environment: dict[str, str] = {}
    run: str = ""  # its purpose: the id of a run, or "probe"


def create_arguments(launch: ContainerLaunch, owner: str) -> dict[str, Any]:
    """Arguments of ``containers.create``; raises UsageError for a folder that cannot be mounted.

    ``owner`` tells which process the container belongs to: see ``owners``.
    """
    from docker.types import LogConfig

    return {
        "image": launch.image,
        # Our program replaces the image's entry point. With an empty one podman 4.3 would keep
        # the image's, and pass it our command as arguments.
        "entrypoint": list(launch.command[:1]),
        "command": list(launch.command[1:]),
        "environment": _environment(launch),
        "labels": {OWNER_LABEL: owner, RUN_LABEL: launch.run},
        "stdin_open": True,  # and once: the container's input ends when we go away
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": _SCRATCH},  # noqa: S108
        "mounts": [*(_bind(mount) for mount in all_mounts(launch)), *_volumes(launch)],
        "user": launch.user.text,
        "group_add": [str(group) for group in launch.groups],
        "working_dir": "/tmp",  # noqa: S108
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "privileged": False,
        "ipc_mode": "private",
        "pids_limit": _MAX_PROCESSES,
        "init": True,  # hands signals on: a container without it is only stopped by force
        "auto_remove": True,
        "log_config": LogConfig(type=LogConfig.types.NONE),
        **access_arguments(launch.access),
    }


def all_mounts(launch: ContainerLaunch) -> tuple[Mount, ...]:
    """Every folder of the host that the container sees; all of them only to be read."""
    mounts = list(launch.mounts)
    if launch.board is not None:
        mounts.append(Mount(launch.board, BOARD))
    if launch.with_debug_files:
        mounts.append(Mount(Path(DEBUG_FILES), DEBUG_FILES))
    return tuple(mounts)


def _bind(mount: Mount) -> Any:
    from docker.types import Mount as Bind

    if not mount.source.is_absolute() or not mount.target.is_absolute():
        raise UsageError("a folder is mounted by its absolute path", where=str(mount.source))
    return Bind(
        target=str(mount.target),
        source=str(mount.source),
        type="bind",
        read_only=True,
    )


def _volumes(launch: ContainerLaunch) -> list[Any]:
    files = [] if launch.files is None else [volume_mount(launch.files, is_read_only=True)]
    if launch.outputs is None:
        return files
    return [*files, volume_mount(launch.outputs, is_read_only=False, target=OUTPUTS)]


def volume_mount(name: str, *, is_read_only: bool, target: PurePosixPath = FILES) -> Any:
    """The volume ``name`` at ``target``, as an argument for creating a container."""
    from docker.types import Mount as Volume

    # What the image may have at that place is not copied into it.
    return Volume(
        target=str(target), source=name, type="volume", read_only=is_read_only, no_copy=True
    )


def _environment(launch: ContainerLaunch) -> Mapping[str, str]:
    return {**_ENVIRONMENT, **access_environment(launch.access), **launch.environment}


PYTHON = "/opt/mansard/bin/python3"  # in every image of ours


def launch_for(
    engine: ContainerEngine,
    machine: MachineIdentity | None,
    image: str,
    *,
    board: Path,
    processor: Processor,
) -> ContainerLaunch:
    """The launch of a measurement of ``machine``; its command is the image's Python alone.

    ``board`` is the root folder on the engine's host; any other than ``/`` is a simulated
    board's. Raises ContainerError where no container of the engine gets at the GPU.
    """
    gpu = "none" if machine is None or processor == "cpu" else gpu_kind(machine)
    user = _user(engine, board, gpu)
    return ContainerLaunch(
        image=image,
        command=(PYTHON,),
        user=user,
        access=choose_access(engine.facts, gpu),
        groups=device_groups() if gpu != "none" and engine.facts.is_local else (),
        board=None if board == SYSTEM_ROOT else board,
        with_debug_files=gpu == "jetson" and user.uid == 0,
    )


def _user(engine: ContainerEngine, board: Path, gpu: GpuKind) -> User:
    """The caller, or nobody; on a Jetson root if the caller is root, for the memory's clock."""
    if not engine.facts.is_local:
        if gpu == "none":
            return User(uid=NOBODY, gid=NOBODY, why="the caller has no account over there")
        return User(uid=0, gid=0, why="the groups that may use the devices there are unknown here")
    needed = [] if board == SYSTEM_ROOT else [board]
    if gpu == "jetson":
        needed.append(Path(DEBUG_FILES))
    return choose_user(
        os.geteuid(), os.getegid(), is_rootless=engine.facts.is_rootless, needed=needed
    )
