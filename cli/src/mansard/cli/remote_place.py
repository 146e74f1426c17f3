"""A board on another host: its engine through a tunnel, its controller in a container there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.cli.container_place import ContainerPlace, WantedImage, ensure, find_image
from mansard.cli.voice import Voice

if TYPE_CHECKING:
    from mansard.containers.engine import Engine
    from mansard.containers.hosts import Host
    from mansard.core.records import MachineIdentity
    from mansard.device.controller.remote import RemoteController
    from mansard.measuring.manifest import Image


class RemotePlace(ContainerPlace):
    """The place of a board on another host, which another thread can stop."""

    def __init__(
        self,
        controller: RemoteController,
        engine: Engine,
        image: Image,
        machine: MachineIdentity,
        root: Path,
    ) -> None:
        super().__init__(controller, engine, image, machine, root)
        self.stop = controller.end  # from another thread: the board is put back
        self.address = engine.address


@contextmanager
def remote(host: Host, wanted: WantedImage, voice: Voice) -> Iterator[RemotePlace]:
    """The board of ``host``, until the end of this; it is put back by its own controller.

    Which image fits the board is not known before its controller has looked: it runs in one that
    is there, or that most likely fits. Raises ContainerError, and what is wrong with the board.
    """
    from mansard.containers.board_controller import board_controller
    from mansard.containers.engine import connect
    from mansard.containers.images.building import ready_image
    from mansard.containers.images.needed import controller_image
    from mansard.containers.images.table import user_table
    from mansard.containers.settings import launch_for
    from mansard.containers.tunnel import open_tunnel

    with ExitStack() as stack:
        address = f"unix://{host.socket}"
        if host.ssh is not None:
            address = stack.enter_context(open_tunnel(host)).address
        engine = stack.enter_context(connect(address))
        entry = controller_image(
            engine.facts,
            user_table(wanted.table),
            host,
            lambda entry: ready_image(engine, entry) is not None,
            wanted.name,
        )
        first = ensure(engine, entry, wanted, voice)
        launch = launch_for(engine, None, first.digest, board=Path("/"), processor="cpu")
        controller = stack.enter_context(board_controller(engine, launch, host.root, host.name))
        own = wanted if host.image is None else msgspec.structs.replace(wanted, name=host.image)
        machine = controller.identify()
        image = find_image(engine, machine, own, voice)
        yield RemotePlace(controller, engine, image, machine, Path(host.root))
