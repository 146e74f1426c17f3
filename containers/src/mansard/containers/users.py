"""Who a container runs as: the caller where that is enough, never with any capability."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mansard.device.system import glob

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
    """Numbers of user and group, and why these."""

    uid: int
    gid: int
    why: str

    @property
    def text(self) -> str:
        """As the engine wants it."""
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
    """The caller; or the owner, of what not even root could read without a capability."""
    why = f"{path} is not for others"
    if can_read(path, caller.uid, caller.gid):
        return msgspec.structs.replace(caller, why=why)
    found = path.stat()
    return User(uid=found.st_uid, gid=found.st_gid, why=why)


def _who_called(environment: Mapping[str, str]) -> User:
    numbers = [environment.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if all(number.isdecimal() and 0 < int(number) < NOBODY for number in numbers):
        return User(uid=int(numbers[0]), gid=int(numbers[1]), why="who called sudo")
    return User(uid=NOBODY, gid=NOBODY, why="root measures as nobody")


def can_read(path: Path, uid: int, gid: int) -> bool:
    """Whether the mode of ``path`` lets a user read it who has no capability.

    Folders above it do not count: only what is mounted is seen inside. What is not there
    is not in the way.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    want = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(found.st_mode) else 0)
    if found.st_uid == uid:
        return (found.st_mode >> 6) & want == want
    if found.st_gid == gid:
        return (found.st_mode >> 3) & want == want
    return found.st_mode & want == want


def device_groups(root: Path = Path("/")) -> tuple[int, ...]:
    """Numbers of the groups that may use the GPU's devices where others may not.

    On Jetson these are mostly ``video`` and ``render``; their numbers differ between
    systems, so those of the files are taken.
    """
    groups = set()
    for path in find_devices(root):
        try:
            found = path.stat()
        except OSError:
            continue
        is_closed = not found.st_mode & stat.S_IROTH
        if is_closed and found.st_mode & stat.S_IRGRP and found.st_gid != 0:
            groups.add(found.st_gid)
    return tuple(sorted(groups))


def find_devices(root: Path = Path("/")) -> tuple[Path, ...]:
    """The device files of NVIDIA GPUs, of Jetsons and of cards."""
    found = (path for pattern in _DEVICES for path in glob(root / "dev", pattern))
    return tuple(path for path in found if not path.is_dir())
