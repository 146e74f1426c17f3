"""Opens the place where one board is measured: here, in a container, or on another host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mansard.cli.container_place import contained
from mansard.cli.places import HerePlace, Place
from mansard.cli.voice import Voice
from mansard.core.errors import ContainerError

if TYPE_CHECKING:
    from mansard.cli.benching import BenchRequest
    from mansard.core.records import MachineIdentity
    from mansard.device.controller.controller import BoardController


@contextmanager
def open_place(controller: BoardController, request: BenchRequest, voice: Voice) -> Iterator[Place]:
    """The place of ``controller``'s board; raises what keeps it from being measured.

    A Jetson is measured in a container unless the request says not to. A graphics card is
    measured in this process where CUDA's libraries are installed, in a container where they
    are not, and everything else in this process.
    """
    place = HerePlace(request.root, controller)
    if not _wants_container(request, controller.identify(), place):
        yield place
        return
    with contained(controller, request.root, request.wanted_image, voice) as inside:
        yield inside


def _wants_container(request: BenchRequest, machine: MachineIdentity, place: Place) -> bool:
    if request.is_local or (request.is_dry_run and machine.is_simulated):
        return False
    if machine.kind == "jetson" or request.wanted_image.name is not None:
        return True
    if machine.kind != "gpu" or request.processor == "cpu":
        return False
    return place.probe("gpu").gpu is None and _has_engine(request)


def _has_engine(request: BenchRequest) -> bool:
    from mansard.containers.engine import connect

    try:
        with connect(request.wanted_image.engine):
            return True
    except ContainerError:
        return False
