"""What a measuring container may do, as arguments for creating it: as little as will do.

No network, no capability, no new privileges, a root that cannot be written, no volume that
can be written: results leave through the container's standard output alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mansard.containers.access import NO_GPU, Access, access_arguments, access_environment
from mansard.containers.users import User
from mansard.core.errors import UsageError

BOARD = PurePosixPath("/board")  # where a simulated board's files lie in the container
DEBUG_FILES = PurePosixPath("/sys/kernel/debug")  # the memory's clock of a Jetson, root's alone
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


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What is to run, in what image, as whom, and with what in reach."""

    image: str  # its name or its id
    command: tuple[str, ...]
    user: User
    access: Access = NO_GPU
    groups: tuple[int, ...] = ()  # that own the GPU's devices
    board: Path | None = None  # a simulated board's root
    with_debug_files: bool = False
    mounts: tuple[Mount, ...] = ()
    environment: dict[str, str] = {}
    run: str = ""  # what it is for: an id of a run, or "probe"


def create_arguments(launch: Launch, owner: str) -> dict[str, Any]:
    """Arguments of ``containers.create``; raises UsageError for a folder that cannot be mounted.

    ``owner`` tells which process the container belongs to: see ``owners``.
    """
    from docker.types import LogConfig

    return {
        "image": launch.image,
        "command": list(launch.command),
        "entrypoint": [],  # of the image: none of it
        "environment": _environment(launch),
        "labels": {OWNER_LABEL: owner, RUN_LABEL: launch.run},
        "stdin_open": True,  # and once: the container's input ends when we go away
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": _SCRATCH},  # noqa: S108
        "mounts": [_bind(mount) for mount in all_mounts(launch)],
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


def all_mounts(launch: Launch) -> tuple[Mount, ...]:
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


def _environment(launch: Launch) -> Mapping[str, str]:
    return {**_ENVIRONMENT, **access_environment(launch.access), **launch.environment}
