"""Networks that Jetson users run, as small ONNX files without weights.

The files ship with the package (``models/``); ``python -m tools.zoo.generate`` in the
repository draws them again. Listing, reading and writing them needs no onnx. Single convolutions
(``CONVOLUTIONS``) and operators of many shapes (``OPERATORS``) are networks of the zoo too; they
are drawn when they are read, by onnx.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path

from mansard.core.errors import InputError, UsageError
from mansard.core.storage import files
from mansard.estimator.zoo import operators
from mansard.estimator.zoo.catalogue import (
    CATALOG,
    CONVOLUTIONS,
    FAMILIES,
    OPERATORS,
    Entry,
    draw_convolution,
)

__all__ = [
    "CATALOG",
    "CONVOLUTIONS",
    "FAMILIES",
    "OPERATORS",
    "Entry",
    "entry",
    "family",
    "has",
    "names",
    "read",
    "write",
]

_MODELS = Path(__file__).parent / "models"


def names() -> tuple[str, ...]:
    """The networks' names, in alphabetical order; without single layers."""
    return tuple(network.name for network in CATALOG)


def family(name: str) -> tuple[str, ...]:
    """The members of a family, ``convolutions`` or ``operators``; none for any other name."""
    return tuple(network.name for network in FAMILIES.get(name, ()))


def has(name: str) -> bool:
    """Whether a network, or single layer, is called so."""
    return name in _by_name()


def entry(name: str) -> Entry:
    """What is known about one network, or single convolution.

    Raises UsageError for a name that is not there.
    """
    network = _by_name().get(name)
    if network is None:
        close = difflib.get_close_matches(name.lower(), _by_name(), n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"the zoo has no network {name!r}", fix=f"{hint}'mansard models list' shows them"
        )
    return network


def read(name: str) -> bytes:
    """The content of the ONNX file, shipped or drawn.

    Raises UsageError for an unknown name, InputError where the file is missing from
    the installation.
    """
    network = entry(name)
    if network in CONVOLUTIONS:
        return draw_convolution(name)
    if network in OPERATORS:
        return operators.draw(name)
    path = _MODELS / f"{network.name}.onnx"
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            error.strerror or str(error), where=str(path), fix="install mansard again"
        ) from error


def write(name: str, folder: Path, within: Path | None = None) -> Path:
    """Write the file into ``folder``, made where missing; returns its path.

    ``within``: as in ``core.storage.files``. Raises UsageError for an unknown name, StorageError
    where it cannot be written.
    """
    content = read(name)
    path = files.make_folder(folder, within) / f"{name}.onnx"
    files.write_atomic(path, content, within)
    return path


@cache
def _by_name() -> dict[str, Entry]:
    return {network.name: network for network in (*CATALOG, *CONVOLUTIONS, *OPERATORS)}
