"""The board's nvpmodel.conf: found and read below the root."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath

from mansard.core.errors import DeviceError, InputError
from mansard.device.nvpmodel.config import Config
from mansard.device.nvpmodel.grammar import parse_config
from mansard.device.nvpmodel.verbose import is_verbose, parse_verbose
from mansard.device.system import read_start

CONFIG_PATH = "/etc/nvpmodel.conf"
_MAX_BYTES = 1 << 22
_MAX_LINKS = 8


def read_config(root: Path) -> tuple[Config, str]:
    """The board's configuration and its file; raises DeviceError or InputError."""
    path = _follow(root)
    text = _read(path, "a Jetson has it from the package nvidia-l4t-nvpmodel; other machines none")
    return parse_config(text, str(path)), str(path)


def load_config(path: Path) -> Config:
    """The configuration in a file, or in a dump of the tool; raises DeviceError or InputError."""
    text = _read(path, "name an nvpmodel.conf, or a dump of 'nvpmodel -p --verbose'")
    return parse_verbose(text, str(path)) if is_verbose(text) else parse_config(text, str(path))


def _follow(root: Path) -> Path:
    """The file itself: a link's absolute target lies below ``root`` too."""
    place = PurePosixPath(CONFIG_PATH)
    for _ in range(_MAX_LINKS):
        path = root.joinpath(*place.parts[1:])
        try:
            target = path.readlink()
        except OSError:  # no link: the file itself, or nothing at all
            return path
        # Nothing leads above the root, as it would not on the board.
        place = PurePosixPath(os.path.normpath(place.parent / target))
    raise DeviceError("is a circle of links", where=str(root.joinpath(*place.parts[1:])))


def _read(path: Path, fix: str) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("is not a file", where=str(path))
        data = read_start(path, _MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DeviceError(
            f"cannot be read: {reason.lower()}",
            where=str(path),
            fix=fix,
        ) from error
    if len(data) > _MAX_BYTES:
        raise InputError("is too large for a configuration of power modes", where=str(path))
    return data.decode("utf-8", "replace")
