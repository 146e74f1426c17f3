"""The controller of a board, in a container on it.

It is the one container that changes anything: the clocks and power modes of the board, which
need root there. It gets no more than that takes: the board's files under /board, and the one
capability to make them its root. No privileges, no devices, no network, a read-only image.
Source: capabilities(7), CAP_SYS_CHROOT; "Runtime privilege" in Docker's documentation.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from mansard.containers.engine import NO_GPU, ContainerEngine
from mansard.containers.engine_errors import BUILD_IMAGE, explained
from mansard.containers.launch import is_gone, start_attached, this_process
from mansard.containers.settings import BOARD, ContainerLaunch, User, create_arguments
from mansard.containers.stream import Attached, Chunk, split_lines
from mansard.core.errors import ContainerError, MansardError
from mansard.core.processes.line_channel import HEARTBEAT
from mansard.core.text import masked, printable
from mansard.device.controller.remote import RemoteController, remote_controller

END_S = 120  # to put the board back: nvpmodel may take a minute
_BEAT_S = 0.05  # to send a heartbeat, and to keep what has come
_MOST_WAITING = 100  # answers not taken yet; there is one for each question
_TAIL_BYTES = 2048
_SHOWN_CHARACTERS = 500


class ContainerChannel:
    """A controller in a container; made before the container is started."""

    def __init__(
        self, engine: ContainerEngine, ident: str, attached: Attached, *, end_s: float = END_S
    ) -> None:
        self._engine, self._ident, self._attached = engine, ident, attached
        self._patience_s = end_s
        self._tail = b""
        self._lines = split_lines()
        self._ready: deque[bytes] = deque()
        self._is_closed = False

    def send(self, line: bytes) -> None:
        """Queue one line, which the next ``receive`` sends."""
        if self._attached.has_ended or self._is_closed:
            raise BrokenPipeError("the board controller has ended")
        self._attached.send(line)

    def receive(self, timeout_s: float) -> bytes:
        """The next line; empty at the end. Raises TimeoutError, ContainerError."""
        if not self._ready:
            for chunk in self._attached.receive(timeout_s):
                self._keep(chunk)
                if self._ready:
                    break
        return self._ready.popleft() if self._ready else b""

    def beat(self) -> None:
        """Send an empty line now, between two questions; raises OSError at the controller's end."""
        self.send(HEARTBEAT)
        with suppress(TimeoutError):
            for chunk in self._attached.receive(_BEAT_S):
                self._keep(chunk)  # such as an answer that comes too late
        if self._attached.has_ended:
            raise BrokenPipeError("the board controller has ended")

    def end(self) -> None:
        """End the questions."""
        self._attached.close_input()

    def close(self) -> str:
        """End the questions, and wait until the board is put back."""
        if not self._is_closed:
            self._is_closed = True
            self.end()
            try:
                for chunk in self._attached.receive(self._patience_s):
                    self._keep_words(chunk)
            except TimeoutError:
                self._stop()
            finally:
                # Not removed by force: interrupted here, it goes on to put the board back.
                self._attached.close()
        return printable(masked(self._tail.decode("utf-8", "replace")).strip()[-_SHOWN_CHARACTERS:])

    def _keep(self, chunk: Chunk) -> None:
        self._keep_words(chunk)
        if chunk.output == "stdout":
            self._ready.extend(line for line in self._lines.feed(chunk.data) if line)
        if len(self._ready) > _MOST_WAITING:
            raise ContainerError(
                "its board controller sends answers without a question", fix=BUILD_IMAGE
            )

    def _keep_words(self, chunk: Chunk) -> None:
        if chunk.output == "stderr":
            self._tail = (self._tail + chunk.data)[-_TAIL_BYTES:]

    def _stop(self) -> None:
        with suppress(MansardError), explained(self._engine.address):
            self._engine.client.api.stop(self._ident, timeout=END_S)


# Not the label of measuring containers, which are ended by force.
CONTROLLER_LABEL = "mansard.controller"
_REAL = PurePosixPath("/")
# Longer than a measuring container waits for its heartbeat (60 s): nothing is to be measured in
# the modes of a board that was put back.
QUIET_S = 180.0


@contextlib.contextmanager
def board_controller(
    engine: ContainerEngine,
    launch: ContainerLaunch,
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
    ident, attached = start_attached(engine, launch.image, arguments)
    channel = ContainerChannel(engine, ident, attached)
    # Greeted, and at the end closed: the container removes itself when the controller has ended.
    with remote_controller(channel, board) as controller:
        yield controller


def controller_arguments(
    engine: ContainerEngine, launch: ContainerLaunch, root: PurePosixPath, quiet_s: float
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


def _user(engine: ContainerEngine, root: PurePosixPath) -> User:
    """Root on a real board; on a simulated one the owner of its folder."""
    if root == _REAL:
        return User(uid=0, gid=0, why="clocks and power modes are root's")
    if engine.facts.is_rootless:
        return User(uid=0, gid=0, why="a rootless engine's root is the caller, outside")
    if engine.facts.is_local and Path(root).exists():
        owner = Path(root).stat()
        return User(uid=owner.st_uid, gid=owner.st_gid, why="the owner of the simulated board")
    return User(uid=os.geteuid(), gid=os.getegid(), why="the caller")


def _end_leftovers(engine: ContainerEngine) -> None:
    """Wait for controllers whose callers are gone: they are putting the board back."""
    with explained(engine.address):
        owners = {
            str(container["Id"]): str((container.get("Labels") or {}).get(CONTROLLER_LABEL, ""))
            for container in engine.client.api.containers(filters={"label": CONTROLLER_LABEL})
        }
    for ident, owner in owners.items():
        if is_gone(owner):
            with contextlib.suppress(MansardError), explained(engine.address):  # it has ended
                engine.client.api.stop(ident, timeout=END_S)
