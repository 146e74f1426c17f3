"""The rows that ``mansard image list`` shows."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.containers.images.fitting import why_not
from mansard.containers.images.store import Stored
from mansard.containers.images.table import Image, ImageTable
from mansard.core.errors import MansardError
from mansard.core.records import MachineIdentity

IMAGE_COLUMNS = ("image", "base", "CUDA", "Python", "for this machine")
STORED_COLUMNS = ("image", "tag", "size (MB)", "digest", "commit", "for this machine")
_DIGEST_CHARACTERS = 19  # sha256: and twelve more, as Docker shows them


def image_rows(table: ImageTable, machine: MachineIdentity) -> list[dict[str, str]]:
    """The images of the table, with whether each is for ``machine``."""
    return [
        {
            "image": image.name,
            "base": image.base,
            "cuda": image.cuda or "–",
            "python": image.python,
            "fits": fits(image, table, machine),
        }
        for image in table.images
    ]


def stored_rows(
    stored: Sequence[Stored], table: ImageTable, machine: MachineIdentity
) -> list[dict[str, str]]:
    """The images that an engine has, with whether each is for ``machine``."""
    by_name = {image.name: image for image in table.images}
    return [
        {
            "image": each.name,
            "tag": each.tag,
            "size_mb": f"{each.size_bytes / 1e6:.0f}",
            "digest": each.digest[:_DIGEST_CHARACTERS],
            "revision": each.revision[:12],
            "fits": fits(by_name[each.name], table, machine)
            if each.name in by_name
            else "no: the table has no such image",
        }
        for each in stored
    ]


def fits(image: Image, table: ImageTable, machine: MachineIdentity) -> str:
    """``yes``, or ``no`` with the reason."""
    try:
        reason = why_not(image, machine, table)
    except MansardError as error:  # a board that does not tell its release
        reason = error.what
    return "yes" if reason is None else f"no: {reason}"
