"""The image that a measurement needs: there already, or built after its size was said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from mansard.containers.engine import Engine
from mansard.containers.images.building import Order, build_image, ready_image
from mansard.containers.images.pulling import Confirm, Downloads
from mansard.containers.images.table import Image as Entry
from mansard.measuring.manifest import Image

# Lines of the builder and of pip that say nothing to a person.
_NOISE = re.compile(
    r" *---> |Removing intermediate|Ignoring |Looking in links|Processing |Successfully |"
    r"Step [0-9]+/[0-9]+ : (?:ARG|ENV|LABEL|CMD|ENTRYPOINT|WORKDIR|USER)\b"
)


def ensure_image(
    engine: Engine,
    entry: Entry,
    *,
    is_offline: bool = False,
    is_agreed: bool = False,
    say: Callable[[str], None] = lambda _: None,
    ask: Callable[[str], bool] | None = None,
    wheels: Path | None = None,
) -> Image:
    """Name and digest of the image of ``entry``, which is built where it is not there.

    Its downloads are said, and asked for by ``ask`` where that is given and nothing is
    ``is_agreed`` yet. Offline it is only looked for, or built from what is here already.
    Raises ContainerError, StorageError, InputError, or UsageError for a no.
    """
    ready = ready_image(engine, entry)
    if ready is not None:
        return Image(ready.tag, ready.digest)

    confirm = confirming(say, None if is_agreed else ask)
    order = Order(wheels=wheels, offline=is_offline, confirm=confirm, tell=quietly(say))
    built = build_image(engine, entry, order)
    say(f"built {built.tag}: {built.size_bytes / 1e6:.0f} MB in {built.build_s:.0f} s")
    return Image(built.tag, built.digest)


def confirming(say: Callable[[str], None], ask: Callable[[str], bool] | None) -> Confirm:
    """Says what would be downloaded, and asks where there is somebody to ask."""

    def confirm(wanted: Downloads) -> bool:
        say(f"to download: {wanted.told}")
        return ask is None or ask("Download it?")

    return confirm


def quietly(say: Callable[[str], None]) -> Callable[[str], None]:
    """``say`` without the lines of a build that say nothing to a person."""

    def tell(line: str) -> None:
        if not _NOISE.match(line):
            say(line)

    return tell
