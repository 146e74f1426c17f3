"""Opens the place where one board is measured: here, in a container, or on another host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mansard.cli.container_place import contained
from mansard.cli.places import Place, here
from mansard.cli.voice import Voice
from mansard.core.errors import ContainerError

if TYPE_CHECKING:
    from mansard.cli.benching import BenchRequest
    from mansard.core.records import MachineIdentity


@contextmanager
def open_place(request: BenchRequest, voice: Voice) -> Iterator[Place]:
    """The place of ``request``'s own board; raises what keeps it from being measured.

    A Jetson is measured in a container unless the request says not to. A graphics card is
    measured in this process where CUDA's libraries are installed, in a container where they
    are not, and everything else in this process.
    """
    with here(request.root) as place:
        machine = place.steward.identify()
        if not _wants_container(request, machine, place):
            yield place
            return
        # A mode that does not exist is said before an engine is asked, or an image built.
        place.steward.choose_modes(request.mode, request.pick)
        wanted = request.wanted_image
        with contained(place.steward, request.root, wanted, voice) as inside:
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
