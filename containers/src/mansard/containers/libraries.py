"""What an image installs, for the Python that it has."""

from __future__ import annotations

import re

from mansard.containers.context import RECIPES
from mansard.containers.image_table import Image, version_key
from mansard.core.files import read_whole

# The only markers in the lists: "python_full_version < '3.11'", and == '3.11.*'.
_MARKER = re.compile(r"python_full_version (<|>=|==) '([0-9.]+?)(?:\.\*)?'")


def library_lines(image: Image) -> tuple[str, ...]:
    """``name==version`` for each library; other Pythons' versions are left out.

    pip judges the markers by the Python that it runs on itself, whatever ``--python-version``
    says, so a list for another machine must be without them.
    """
    text = read_whole(RECIPES / "lists" / f"{image.libraries}.txt").decode()
    lines = (line.partition(" ; ") for line in text.splitlines() if line[:1] not in {"", "#"})
    python = version_key(image.python)[:2]
    return tuple(pin for pin, _, marker in lines if not marker or _holds(marker, python))


def _holds(marker: str, python: tuple[int, ...]) -> bool:
    found = _MARKER.fullmatch(marker)
    if found is None:
        raise ValueError(f"a marker that is not known: {marker}")
    key = version_key(found[2])
    if found[1] == "==":
        return python == key
    return python < key if found[1] == "<" else python >= key
