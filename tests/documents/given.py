"""The reader's own files that pages speak of, made for the tests that run those pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.documents.pages import ROOT


def make_given(name: str, folder: Path) -> None:
    """Make the file or folder ``name`` in ``folder``; raises KeyError without a maker."""
    MAKERS[name](folder / name)


def _network(path: Path) -> None:
    from mansard.estimator import zoo

    zoo.write("squeezenet1_1", path.parent).rename(path)


def _folder_of_networks(path: Path) -> None:
    from mansard.estimator import zoo

    path.mkdir()
    for name in ("alexnet", "squeezenet1_1"):
        zoo.write(name, path)


def _runs(path: Path) -> None:
    from tests.analytics.factory import write_two_modes

    write_two_modes(path)


def _checkout(path: Path) -> None:
    """What a clone holds, without the tests, as links."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "tools"):
        (path.parent / name).symlink_to(ROOT / name)


MAKERS: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "mine.onnx": _network,
        "models/": _folder_of_networks,
        "runs/": _runs,
    }
)
