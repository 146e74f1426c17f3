"""The documents that guide through the code name files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = re.compile(r"`([a-z_]+/[a-z_/]*(?:\.py|/))`")


@pytest.mark.parametrize(
    ("name", "at_least"), [("understand/reading.md", 25), ("reference/glossary.md", 40)]
)
def test_every_path_is_there(name: str, at_least: int) -> None:
    paths = PATH.findall((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert len(paths) >= at_least  # they were found
    missing = [path for path in paths if not _in_a_room(path).exists()]
    assert not missing


def _in_a_room(path: str) -> Path:
    """``device/meters/`` is ``device/src/mansard/device/meters``."""
    return ROOT / (path if "/src/" in path else f"{path.partition('/')[0]}/src/mansard/{path}")
