"""Stopping what a worker waits for: the measuring containers of this process on one engine."""

from __future__ import annotations

from contextlib import suppress

from mansard.containers.engine import connect
from mansard.containers.engine_errors import explained
from mansard.containers.launch import STOP_S
from mansard.containers.owners import this_process
from mansard.containers.settings import OWNER_LABEL
from mansard.core.errors import MansardError


def stop_containers(address: str) -> None:
    """Stop every measuring container that this process has on the engine at ``address``.

    Over a connection of its own: the worker's is busy. Their reader then comes to its end.
    Raises ContainerError where the engine is gone, and all containers with it.
    """
    label = f"{OWNER_LABEL}={this_process()}"
    with connect(address) as engine:
        with explained(address):
            found = engine.client.api.containers(filters={"label": label})
        for container in found:
            with suppress(MansardError), explained(address):  # it has ended meanwhile
                engine.client.api.stop(container["Id"], timeout=STOP_S)
