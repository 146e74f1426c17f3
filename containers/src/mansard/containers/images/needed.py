"""The image that a measurement needs: there already, or built after its size was said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mansard.containers.engine import ContainerEngine, EngineFacts
from mansard.containers.hosts import Host
from mansard.containers.images.building import Order, build_image, ready_image
from mansard.containers.images.pulling import Confirm, Downloads
from mansard.containers.images.table import Image as Entry
from mansard.containers.images.table import ImageTable, version_key
from mansard.core.errors import ContainerError
from mansard.measuring.manifest import ContainerImage

# Lines of the builder and of pip that tell a reader nothing.
_NOISE = re.compile(
    r" *---> |Removing intermediate|Ignoring |Looking in links|Processing |Successfully |"
    r"Step [0-9]+/[0-9]+ : (?:ARG|ENV|LABEL|CMD|ENTRYPOINT|WORKDIR|USER)\b"
)


def ensure_image(
    engine: ContainerEngine,
    entry: Entry,
    *,
    is_offline: bool = False,
    is_agreed: bool = False,
    say: Callable[[str], None] = lambda _: None,
    ask: Callable[[str], bool] | None = None,
    wheels: Path | None = None,
) -> ContainerImage:
    """Name and digest of the image of ``entry``, which is built where it is not there.

    Its downloads are said, and asked for by ``ask`` where that is given and nothing is
    ``is_agreed`` yet. Offline it is only looked for, or built from what is here already.
    Raises ContainerError, StorageError, InputError, or UsageError for a no.
    """
    ready = ready_image(engine, entry)
    if ready is not None:
        return ContainerImage(ready.tag, ready.digest)

    confirm = confirming(say, None if is_agreed else ask)
    order = Order(wheels=wheels, offline=is_offline, confirm=confirm, tell=quietly(say))
    built = build_image(engine, entry, order)
    say(f"built {built.tag}: {built.size_bytes / 1e6:.0f} MB in {built.build_s:.0f} s")
    return ContainerImage(built.tag, built.digest)


def confirming(say: Callable[[str], None], ask: Callable[[str], bool] | None) -> Confirm:
    """Says what would be downloaded, and asks where a question can be answered."""

    def confirm(wanted: Downloads) -> bool:
        say(f"to download: {wanted.told}")
        return ask is None or ask("Download it?")

    return confirm


def quietly(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` without the lines of a build that tell a reader nothing."""

    def tell(line: str) -> None:
        if not _NOISE.match(line):
            say(line)

    return tell


# The kernel of each major release of L4T. Source: NVIDIA's release notes of Jetson Linux 35
# (JetPack 5), 36 (JetPack 6) and 38 (JetPack 7); 32 (JetPack 4) has 4.9.
_KERNELS = {"5.10": 35, "5.15": 36, "6.8": 38}


def controller_image(
    facts: EngineFacts,
    table: ImageTable,
    host: Host,
    is_ready: Callable[[Entry], bool],
    name: str | None = None,
) -> Entry:
    """The image for the controller of ``host``, chosen before it is known which board it is.

    Any image of ours does, for the controller sets clocks and runs no kernel. So one that is
    there is taken; else the one that will most likely be measured in, so that the board needs
    one only. Raises UsageError for a name that is not there.
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


def _fits(image: Entry, facts: EngineFacts) -> bool:
    return facts.architecture in image.architectures


def _likely(facts: EngineFacts, fitting: list[Entry]) -> Entry | None:
    """Of a Jetson the newest image of its release's major number, which its kernel tells."""
    if "tegra" not in facts.kernel:
        return None
    major = _KERNELS.get(".".join(facts.kernel.split(".")[:2]))
    ours = [
        image
        for image in fitting
        if not image.engines
        and image.l4t_from is not None
        and version_key(image.l4t_from)[0] == major
    ]
    return max(ours, key=lambda image: version_key(image.l4t_from or "0"), default=None)
