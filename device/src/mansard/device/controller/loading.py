"""Going into a board's own root, with all of the program at hand before.

In a container the controller has its Python and libraries from the image, and the board's files
under /board. Links there mean the board's own root (/proc/device-tree, /etc/nvpmodel.conf), and
so do the board's tools; so the process itself goes into that root, as chroot(1) does. Nothing
can be imported from there: everything is loaded beforehand, and later imports are refused
rather than taken from the board's own, other Python.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Iterator
from importlib.machinery import BuiltinImporter, FrozenImporter
from pathlib import Path

from mansard.core.errors import DeviceError, reported

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}
_ROOMS = ("mansard.core", "mansard.device")
# Imported within functions: a reader of TOML, NVML's binding, and numpy for picking modes.
_LATE = ("numpy", "tomllib", "tomli", "pynvml", "random", "traceback")


def load_everything() -> None:
    """Import all that a controller may need, and nothing any more after that."""
    for name in (*_modules(), *_LATE):
        try:
            importlib.import_module(name)
        except ImportError:  # optional ones
            if name.startswith("mansard."):
                raise
    sys.meta_path[:] = [BuiltinImporter, FrozenImporter]


def enter(root: Path) -> None:
    """Make ``root`` the root of this process; raises DeviceError. Load everything before.

    The image's environment is left behind: the board's tools get what root's shell has there.
    """
    fix = "the board controller's container runs as root, with the capability SYS_CHROOT"
    with reported(DeviceError, "the board's root cannot be entered", where=str(root), fix=fix):
        os.chroot(root)
        os.chdir("/")
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)


def _modules() -> Iterator[str]:
    for room in _ROOMS:
        yield from _below(room)


def _below(package: str) -> Iterator[str]:
    yield package
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if module.ispkg:
            yield from _below(module.name)
        elif not module.name.endswith("__main__"):
            yield module.name
