"""Whose a container is: the process that started it, told apart from any other ever.

A container ends with its owner, because its standard input ends then. One that does not,
say because its program hangs in a driver, is removed by the next start.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.containers.engine_errors import explained
from mansard.containers.settings import OWNER_LABEL
from mansard.core.errors import ContainerError

if TYPE_CHECKING:
    from mansard.containers.engine import Engine

_ENDING = frozenset({404, 409})  # it is gone, or on its way
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> str:
    """The boot of this machine, the number of this process, and when it was started."""
    return name_process(os.getpid())


def name_process(pid: int) -> str:
    """The name of process ``pid`` as an owner; raises ContainerError where there is none."""
    started = _start_ticks(pid)
    if started is None:
        raise ContainerError(f"there is no process {pid}", fix="mount /proc")
    return f"{_boot()}/{pid}/{started}"


def is_gone(owner: str) -> bool:
    """Whether ``owner`` was a process of this machine since its start, and is no more.

    Of processes elsewhere, or of an earlier boot, nothing is known: then it is not gone.
    """
    boot, _, rest = owner.partition("/")
    pid, _, started = rest.partition("/")
    if boot != _boot() or not pid.isdecimal() or not started.isdecimal():
        return False
    return _start_ticks(int(pid)) != int(started)


def remove_leftovers(engine: Engine) -> tuple[str, ...]:
    """Remove the containers whose owners are gone; their short ids. Raises ContainerError."""
    from docker.errors import APIError

    removed = []
    with explained(engine.address):
        # Not the SDK's list of objects: it asks for each, and fails if one ends meanwhile.
        found = engine.client.api.containers(all=True, filters={"label": OWNER_LABEL})
        for container in found:
            if not is_gone(str((container.get("Labels") or {}).get(OWNER_LABEL, ""))):
                continue
            try:
                engine.client.api.remove_container(container["Id"], force=True)
            except APIError as error:
                if error.status_code not in _ENDING:
                    raise
                continue
            removed.append(str(container["Id"])[:12])
    return tuple(removed)


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _start_ticks(pid: int) -> int | None:
    """When ``pid`` was started, in clock ticks since boot; None where there is no such process.

    Source: proc(5), /proc/pid/stat, fields 3 and 22. The name in field 2 may hold blanks and
    brackets.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] == "Z":  # a zombie has ended, its parent has not looked yet
        return None
    return int(fields[19])
