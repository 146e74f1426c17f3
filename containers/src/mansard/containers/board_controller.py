"""The controller of a board, in a container on it.

It is the one container that changes anything: the clocks and power modes of the board, which
need root there. It gets no more than that takes: the board's files under /board, and the one
capability to make them its root. No privileges, no devices, no network, a read-only image.
Source: capabilities(7), CAP_SYS_CHROOT; "Runtime privilege" in Docker's documentation.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mansard.containers.access import NO_GPU
from mansard.containers.controller_channel import END_S, ContainerChannel
from mansard.containers.engine import Engine
from mansard.containers.engine_errors import explained
from mansard.containers.launch import remove, shown_image
from mansard.containers.owners import is_gone, this_process
from mansard.containers.settings import BOARD, Launch, create_arguments
from mansard.containers.stream import attach
from mansard.containers.users import User
from mansard.core.errors import MansardError
from mansard.device.controller.remote import RemoteController, remote_controller

# Not the label of measuring containers, which are ended by force.
CONTROLLER_LABEL = "mansard.controller"
_REAL = PurePosixPath("/")
# Longer than a measuring container waits for its heartbeat (60 s): nothing is to be measured in
# the modes of a board that was put back.
QUIET_S = 180.0


@contextlib.contextmanager
def board_controller(
    engine: Engine,
    launch: Launch,
    root: PurePosixPath,
    board: str,
    *,
    quiet_s: float = QUIET_S,
) -> Iterator[RemoteController]:
    """The controller of the board that ``engine`` runs on; it ends with this, the board put back.

    ``launch``: image, its Python as the command, and further mounts. ``root``: ``/``, or the
    folder of a simulated board over there. ``board`` is what errors call it. Having heard
    nothing for ``quiet_s``, the controller takes us for gone. Raises ContainerError, and what is
    wrong with the board.
    """
    _end_leftovers(engine)
    arguments = controller_arguments(engine, launch, root, quiet_s)
    with explained(shown_image(launch.image)):
        created: Any = engine.client.containers.create(**arguments)
    ident = str(created.id)
    try:
        with explained(shown_image(launch.image)):
            channel = ContainerChannel(engine, ident, attach(engine.client, ident))
            created.start()
    except BaseException:
        remove(engine, ident)
        raise
    # Greeted, and at the end closed: the container removes itself when the controller has ended.
    with remote_controller(channel, board) as controller:
        yield controller


def controller_arguments(
    engine: Engine, launch: Launch, root: PurePosixPath, quiet_s: float
) -> dict[str, Any]:
    """Arguments of ``containers.create``; raises UsageError for a folder that is no path."""
    from docker.types import Mount

    is_real = root == _REAL
    option = "--enter" if is_real else "--board"
    program = ("-m", "mansard.device.controller", option, str(BOARD), "--quiet-s", f"{quiet_s:g}")
    plain = msgspec.structs.replace(
        launch,
        command=(*launch.command, *program),
        user=_user(engine, root),
        # Limits of a card are set through its driver, which the container must reach.
        access=launch.access if launch.access.gpu == "card" and is_real else NO_GPU,
        groups=(),
        board=None,
        with_debug_files=False,
        run="controller",
    )
    arguments = create_arguments(plain, this_process())
    # With what is mounted below it, /sys and /proc of the board: there the settings are.
    files = Mount(target=str(BOARD), source=str(root), type="bind", read_only=False)
    return {
        **arguments,
        "labels": {CONTROLLER_LABEL: this_process()},
        "mounts": [*arguments["mounts"], files],
        "cap_add": ["SYS_CHROOT"] if is_real else [],
    }


def _user(engine: Engine, root: PurePosixPath) -> User:
    """Root on a real board; on a simulated one whoever its folder belongs to."""
    if root == _REAL:
        return User(uid=0, gid=0, why="clocks and power modes are root's")
    if engine.facts.is_rootless:
        return User(uid=0, gid=0, why="a rootless engine's root is the caller, outside")
    if engine.facts.is_local and Path(root).exists():
        found = Path(root).stat()
        return User(uid=found.st_uid, gid=found.st_gid, why="the owner of the simulated board")
    return User(uid=os.geteuid(), gid=os.getegid(), why="the caller")


def _end_leftovers(engine: Engine) -> None:
    """Wait for controllers whose callers are gone: they are putting the board back."""
    with explained(engine.address):
        found = engine.client.api.containers(filters={"label": CONTROLLER_LABEL})
    for container in found:
        if is_gone(str((container.get("Labels") or {}).get(CONTROLLER_LABEL, ""))):
            with contextlib.suppress(MansardError), explained(engine.address):  # it has ended
                engine.client.api.stop(container["Id"], timeout=END_S)
