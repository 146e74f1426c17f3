"""Where a board is measured: in this process, or in a container on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mansard.cli.voice import Voice
from mansard.core.errors import DeviceError

if TYPE_CHECKING:
    from mansard.core.records import MachineIdentity, Processor
    from mansard.device.controller.controller import BoardController
    from mansard.measuring.events import Measurer
    from mansard.measuring.manifest import Image
    from mansard.microbench.probing import Probe


class Place(Protocol):
    """A board and the means to measure on it; ``image`` is that of its container."""

    @property
    def controller(self) -> BoardController:
        """Who knows and changes the board."""
        ...

    @property
    def image(self) -> Image | None:
        """The container image that kernels run in; None where there is none."""
        ...

    def probe(self, processor: Processor) -> Probe:
        """What there is to measure ``processor`` with; raises where nothing can be asked."""
        ...

    def measurer(self) -> Measurer:
        """Who measures a job, in the mode that the board is in then."""
        ...


class HerePlace:
    """This machine, or a simulated board beside it, measured in this process."""

    image = None

    def __init__(self, root: Path, controller: BoardController) -> None:
        self._root = root
        self.controller = controller

    def probe(self, processor: Processor) -> Probe:
        """What this process has."""
        from mansard.microbench.probing import probe

        return probe(processor)

    def measurer(self) -> Measurer:
        """A measurer with this machine's meters."""
        from mansard.device.meters.meter import find_meters
        from mansard.measuring.measurer import LocalMeasurer

        meters = find_meters(self._root, self.controller.identify())
        return LocalMeasurer(meters=meters, root=self._root)


def find_processor(
    place: Place, machine: MachineIdentity, wanted: Processor | None, voice: Voice
) -> Probe:
    """What the kernels will run on, and with: ``wanted``, or the GPU where there is one.

    A Jetson is measured for its GPU, so one that cannot be used there is an error; on other
    machines it is a note, and the CPU is measured. A simulated board has no GPU: the CPUs of
    the machine that it is simulated on do the work.
    """
    has_gpu = machine.kind in {"gpu", "jetson"}
    if wanted == "cpu" or machine.is_simulated or (wanted is None and not has_gpu):
        return place.probe("cpu")
    found = place.probe("gpu")
    if found.gpu is not None:
        return found
    reason = found.unknown["gpu"]
    if wanted == "gpu" or machine.kind == "jetson":
        raise DeviceError(
            f"the GPU cannot be measured: {reason}",
            fix="'mansard doctor' says what is missing; --processor cpu measures the CPU",
        )
    voice.note(f"note: the GPU is not measured: {reason}; the CPU is")
    return place.probe("cpu")
