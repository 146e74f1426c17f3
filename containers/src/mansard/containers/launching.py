"""What a board's measuring container is launched with: image, user, GPU, and what it reads."""

from __future__ import annotations

import os
from pathlib import Path

from mansard.containers.access import GpuKind, choose_access, gpu_kind
from mansard.containers.engine import Engine
from mansard.containers.settings import DEBUG_FILES, Launch
from mansard.containers.users import NOBODY, User, choose_user, device_groups
from mansard.core.records import MachineIdentity, Processor
from mansard.device.system import SYSTEM_ROOT

PYTHON = "/opt/mansard/bin/python3"  # in every image of ours


def launch_for(
    engine: Engine,
    machine: MachineIdentity | None,
    image: str,
    *,
    board: Path,
    processor: Processor,
) -> Launch:
    """The launch of a measurement of ``machine``; its command is the image's Python alone.

    ``board`` is the root folder on the engine's host; any other than ``/`` is a simulated
    board's. Raises ContainerError where no container of the engine gets at the GPU.
    """
    gpu = "none" if machine is None or processor == "cpu" else gpu_kind(machine)
    user = _user(engine, board, gpu)
    return Launch(
        image=image,
        command=(PYTHON,),
        user=user,
        access=choose_access(engine.facts, gpu),
        groups=device_groups() if gpu != "none" and engine.facts.is_local else (),
        board=None if board == SYSTEM_ROOT else board,
        with_debug_files=gpu == "jetson" and user.uid == 0,
    )


def _user(engine: Engine, board: Path, gpu: GpuKind) -> User:
    """The caller, or nobody; on a Jetson root where the caller is, for the memory's clock."""
    if not engine.facts.is_local:
        if gpu == "none":
            return User(uid=NOBODY, gid=NOBODY, why="the caller has no account over there")
        return User(uid=0, gid=0, why="which groups may use the devices there is not known here")
    needed = [] if board == SYSTEM_ROOT else [board]
    if gpu == "jetson":
        needed.append(Path(DEBUG_FILES))
    return choose_user(
        os.geteuid(), os.getegid(), is_rootless=engine.facts.is_rootless, needed=needed
    )
