"""The image that a board's controller runs in: chosen before it is known which board it is.

Any image of ours does, for the controller sets clocks and runs no kernel. So one that is there is
taken; else the one that will most likely be measured in, so that the board needs one only.
"""

from __future__ import annotations

from collections.abc import Callable

from mansard.containers.engine import EngineFacts
from mansard.containers.hosts import Host
from mansard.containers.images.table import Image, ImageTable, version_key
from mansard.core.errors import ContainerError

# The kernel of each major release of L4T. Source: NVIDIA's release notes of Jetson Linux 35
# (JetPack 5), 36 (JetPack 6) and 38 (JetPack 7); 32 (JetPack 4) has 4.9.
_KERNELS = {"5.10": 35, "5.15": 36, "6.8": 38}


def controller_image(
    facts: EngineFacts,
    table: ImageTable,
    host: Host,
    is_ready: Callable[[Image], bool],
    name: str | None = None,
) -> Image:
    """The image for the controller of ``host``; raises UsageError for a name that is not there.

    ``name`` or the host's own is taken where one is given. ``is_ready`` tells whether an image
    is on the board already. Raises ContainerError where none is for its processor.
    """
    wanted = name or host.image
    if wanted is not None:
        return table.image(wanted)
    fitting = [image for image in table.images if _fits(image, facts)]
    if not fitting:
        raise ContainerError(
            f"no image is for its processor, {facts.architecture or 'which it does not name'}",
            where=host.name,
            fix="describe one in images.toml",
        )
    for image in fitting:
        if is_ready(image):
            return image
    likely = None if host.is_simulated else _likely(facts, fitting)
    return likely or next((one for one in fitting if one.serves == "cpu"), fitting[0])


def _fits(image: Image, facts: EngineFacts) -> bool:
    return facts.architecture in image.architectures


def _likely(facts: EngineFacts, fitting: list[Image]) -> Image | None:
    """Of a Jetson the newest image of its release's major number, which its kernel tells."""
    if "tegra" not in facts.kernel:
        return None
    major = _KERNELS.get(".".join(facts.kernel.split(".")[:2]))
    ours = [
        image
        for image in fitting
        if image.l4t_from is not None and version_key(image.l4t_from)[0] == major
    ]
    return max(ours, key=lambda image: version_key(image.l4t_from or "0"), default=None)
