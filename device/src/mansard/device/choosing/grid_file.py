"""Grids of modes as TOML files: a line for each setting, and what to leave out.

::

    gpu = ["408MHz", "612MHz", "1020MHz"]
    emc = "all"
    cpu = { from = "700MHz", to = "2000MHz", points = 5 }
    cores = [2, 4, 8]

    [[exclude]]          # modes to which every line of it applies
    gpu = { from = "1GHz" }
    cores = 2
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from mansard.core.errors import InputError, UsageError
from mansard.core.files import read_whole
from mansard.device.choosing.band import Band, band_values, read_band
from mansard.device.choosing.choices import Settable
from mansard.device.choosing.grid import Grid
from mansard.device.choosing.mode_text import setting_key

Found = TypeVar("Found")

_MOST_BYTES = 1 << 20
_EXCLUDE = "exclude"
_LOCATION = re.compile(r" \(at (?:line ([0-9]+), column [0-9]+|end of document)\)")


def read_grid(path: Path, choices: Settable) -> Grid:
    """The grid that a file describes; raises InputError with its line, or StorageError."""
    return parse_grid(read_grid_text(path), path, choices)


def read_grid_text(path: Path) -> str:
    """What the file holds; raises InputError or StorageError."""
    try:
        text = read_whole(path).decode()
    except ValueError as error:  # not UTF-8, or a path that no file system takes
        raise InputError(f"is not a text file: {error}", where=str(path)) from error
    if len(text) > _MOST_BYTES:
        raise InputError("is too long for a grid of modes", where=str(path))
    return text


def parse_grid(text: str, path: Path, choices: Settable) -> Grid:
    """The grid in a text; ``path`` is what errors call it. Raises InputError with its line."""
    content = _parse_toml(text, path)
    excluded = content.pop(_EXCLUDE, [])
    if isinstance(excluded, dict):
        excluded = [excluded]
    if not isinstance(excluded, list) or not all(isinstance(entry, dict) for entry in excluded):
        raise InputError("'exclude' is no table", where=str(path), fix="begin it with [[exclude]]")
    bands = _read_table(content, choices, text, path, section=0)
    if not bands:
        raise InputError(
            "is an empty grid", where=str(path), fix=f"set one of {', '.join(choices.keys)}"
        )
    axes = {
        key: _located(path, text, name, 0, partial(band_values, key, band, choices.table(key)))
        for key, (name, band) in bands.items()
    }
    exclusions = tuple(
        _exclusion(entry, axes.keys(), choices, text, path, section)
        for section, entry in enumerate(excluded, start=1)
    )
    return Grid({key: axes[key] for key in choices.keys if key in axes}, exclusions)


def _parse_toml(text: str, path: Path) -> dict[str, Any]:
    for name in ("tomllib", "tomli"):  # the first is in Python from 3.11 on
        try:
            toml = import_module(name)
        except ImportError:
            continue
        try:
            content: dict[str, Any] = toml.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"is not TOML: {_LOCATION.sub('', str(error))}",
                where=f"{path}:{_line_of(str(error), text)}",
                fix="mend this line",
            ) from error
        return content
    raise UsageError(
        "grid files need Python 3.11 or the package tomli",
        fix="pip install tomli, or write the modes with ';' between them",
    )


def _line_of(message: str, text: str) -> str:
    """The line that the TOML reader complains of: it names it, or means the last one."""
    location = _LOCATION.search(message)
    return location[1] if location and location[1] else str(max(1, len(text.splitlines())))


def _exclusion(
    entry: dict[str, Any],
    axes: Collection[str],
    choices: Settable,
    text: str,
    path: Path,
    section: int,
) -> Mapping[str, Band]:
    bands = _read_table(entry, choices, text, path, section)
    if not bands:
        raise InputError("has an empty [[exclude]], which would leave out all", where=str(path))
    for key, (name, _) in bands.items():
        if key not in axes:
            raise InputError(
                f"excludes by {key}, which the grid does not set",
                where=_place(path, text, name, section),
                fix=f"set {key} above, or take this line out",
            )
    return {key: band for key, (_, band) in bands.items()}


def _read_table(
    table: dict[str, Any], choices: Settable, text: str, path: Path, section: int
) -> dict[str, tuple[str, Band]]:
    """The band of each setting, with the name by which the file calls it."""
    bands: dict[str, tuple[str, Band]] = {}
    for name, given in table.items():

        def read(name: str = name, given: Any = given) -> tuple[str, Band]:
            key = setting_key(name, choices.keys)
            if key in bands:
                raise UsageError(f"{key} is set twice", fix="keep one of them")
            return key, read_band(key, given, choices.table(key))

        key, band = _located(path, text, name, section, read)
        bands[key] = (name, band)
    return bands


def _located(path: Path, text: str, name: str, section: int, read: Callable[[], Found]) -> Found:
    """What ``read`` returns; its UsageError becomes an InputError at the line of ``name``."""
    try:
        return read()
    except UsageError as error:
        raise InputError(
            error.what, where=_place(path, text, name, section), fix=error.fix
        ) from error


def _place(path: Path, text: str, name: str, section: int) -> str:
    """``path:line`` of the setting ``name`` in the n-th section of exclusions; 0 is the top."""
    setting = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*[.=]""")
    seen = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(r"\s*\[+\s*exclude\s*\]+", line):
            seen += 1
        if seen == section and setting.match(line):
            return f"{path}:{number}"
    return str(path)
