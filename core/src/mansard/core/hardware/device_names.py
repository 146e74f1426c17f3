"""Which devices a name means: ``orin-nano``, ``Jetson AGX Orin 64GB``, ``Orin_NX_16``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from mansard.core.hardware.named_modes import boards_called, differ_in_memory

_NEAR = 0.7  # of a word's letters: ``onin`` is near ``orin``
_MOST_NEAR = 4


def devices_called(wanted: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` that ``wanted`` means: the name itself, else part of it, else its board.

    Case, spaces and hyphens do not count. A developer kit is the board that it has:
    ``orin-nano-8gb`` is "NVIDIA Jetson Orin Nano Developer Kit", and not one of 4 GB.
    """
    exact = [name for name in names if name == wanted]
    plain = plain_device(wanted)
    parts = [
        name
        for name in names
        if wanted.casefold() in name.casefold() or (plain and plain in plain_device(name))
    ]
    return tuple(exact or parts or _of_board(wanted, names))


def _of_board(wanted: str, names: Sequence[str]) -> list[str]:
    """The names that mean boards, all of which ``wanted`` means too."""
    boards = boards_called(wanted)
    return [
        name
        for name in names
        if not differ_in_memory(wanted, name)
        and (called := boards_called(name))
        and all(board in boards for board in called)
    ]


def devices_near(wanted: str, names: Sequence[str]) -> tuple[str, ...]:
    """Those of ``names`` that have a similar word for each word of ``wanted``; a few at most."""
    words = _words(wanted)
    near = [
        name
        for name in names
        if words and all(get_close_matches(word, _words(name), 1, _NEAR) for word in words)
    ]
    return tuple(near[:_MOST_NEAR])


def near_hint(wanted: str, names: Sequence[str]) -> str:
    """``did you mean agx-orin-32gb, agx-orin-64gb? ``; empty where nothing is similar."""
    near = devices_near(wanted, names)
    return f"did you mean {', '.join(near)}? " if near else ""


def plain_device(name: str) -> str:
    """A name for comparisons: letters and digits in lower case, without "jetson"."""
    return (
        "".join(filter(str.isalnum, name.casefold())).removeprefix("nvidia").removeprefix("jetson")
    )


def _words(name: str) -> list[str]:
    return re.findall(r"[^\W_]+", name.casefold())
