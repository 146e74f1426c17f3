"""Where a network comes from: an import path, a file, transformers or torchvision."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from mansard.core.errors import UsageError

_FORMS = (
    "give package.module:factory, file.py:factory, transformers:config.json, "
    "transformers:BertConfig or torchvision:resnet50"
)


class PythonSource(msgspec.Struct, frozen=True):
    """``place`` is a module's import path or, with ``is_file``, the path of a file."""

    place: str
    attribute: str  # may be dotted
    is_file: bool


class LibrarySource(msgspec.Struct, frozen=True):
    """A network that a library knows under ``name``."""

    library: Literal["transformers", "torchvision"]
    name: str  # of a configuration's file, folder or class; of torchvision's builder


Source: TypeAlias = PythonSource | LibrarySource


def parse_source(text: str) -> Source:
    """What ``text`` names; nothing is imported or opened. Raises UsageError."""
    head, colon, tail = text.partition(":")
    if colon and tail:
        if head == "transformers":
            return LibrarySource("transformers", tail)
        if head == "torchvision":
            return LibrarySource("torchvision", tail)
    place, colon, attribute = text.rpartition(":")
    is_attribute = bool(colon) and all(part.isidentifier() for part in attribute.split("."))
    if is_attribute and place.endswith(".py"):
        return PythonSource(place, attribute, is_file=True)
    if is_attribute and all(part.isidentifier() for part in place.split(".")):
        return PythonSource(place, attribute, is_file=False)
    raise UsageError(f"{text!r} names no network", fix=_FORMS)
