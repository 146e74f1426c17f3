"""A board measured in a container on it: engine, image, and what the container may reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.cli.voice import Voice

if TYPE_CHECKING:
    from mansard.containers.engine import Engine
    from mansard.containers.images.table import Image as Entry
    from mansard.containers.settings import Launch
    from mansard.core.records import MachineIdentity, Processor
    from mansard.device.controller.controller import BoardController
    from mansard.measuring.events import Measurer
    from mansard.measuring.manifest import Image
    from mansard.microbench.probing import Probe


class WantedImage(msgspec.Struct, frozen=True, kw_only=True):
    """Which image is asked for, and how it may be had."""

    name: str | None = None  # None: the one that fits the machine
    table: Path | None = None  # TOML file of the user's, over ours
    is_offline: bool = False  # neither pull nor build
    is_agreed: bool = False  # pull without asking
    engine: str | None = None  # address; None: the first that answers


class ContainerPlace:
    """A board whose kernels run in a container, and whose modes are the controller's."""

    def __init__(
        self,
        controller: BoardController,
        engine: Engine,
        image: Image,
        machine: MachineIdentity,
        root: Path,
    ) -> None:
        self.controller = controller
        self.image = image
        self._engine = engine
        self._machine = machine
        self._root = root
        self._processor: Processor = "cpu"

    def probe(self, processor: Processor) -> Probe:
        """What a container has; raises ContainerError, also where its GPU cannot be used."""
        from mansard.containers.probing import probe_in_container

        found = probe_in_container(self._engine, self._launch(processor), processor)
        self._processor = processor
        return found

    def measurer(self) -> Measurer:
        """A measurer in a container of its own, with what the last probe was for."""
        from mansard.containers.measurer import ContainerMeasurer

        return ContainerMeasurer(self._engine, self._launch(self._processor))

    def _launch(self, processor: Processor) -> Launch:
        from mansard.containers.settings import launch_for

        return launch_for(
            self._engine, self._machine, self.image.digest, board=self._root, processor=processor
        )


@contextmanager
def contained(
    controller: BoardController, root: Path, wanted: WantedImage, voice: Voice
) -> Iterator[ContainerPlace]:
    """The board of ``controller`` with its engine and image; ``root`` as the engine's host has it.

    Raises ContainerError where there is no engine, or no image and none can be built.
    """
    from mansard.containers.engine import connect

    with connect(wanted.engine) as engine:
        machine = controller.identify()
        yield ContainerPlace(
            controller, engine, find_image(engine, machine, wanted, voice), machine, root
        )


def find_image(
    engine: Engine, machine: MachineIdentity, wanted: WantedImage, voice: Voice
) -> Image:
    """The image that fits ``machine``, built first where it is not there."""
    from mansard.containers.images.fitting import choose_image
    from mansard.containers.images.table import user_table

    fit = choose_image(machine, user_table(wanted.table), name=wanted.name)
    voice.note(f"image {fit.image.name}: {fit.why}")
    return ensure(engine, fit.image, wanted, voice)


def ensure(engine: Engine, entry: Entry, wanted: WantedImage, voice: Voice) -> Image:
    """The image of ``entry`` on ``engine``, built first where it is not there."""
    from mansard.cli.agreeing import asker
    from mansard.containers.images.needed import ensure_image

    return ensure_image(
        engine,
        entry,
        is_offline=wanted.is_offline,
        is_agreed=wanted.is_agreed,
        say=voice.note,
        ask=asker(agreed=wanted.is_agreed),
    )
