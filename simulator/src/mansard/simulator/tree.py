"""A simulated board as files: what stands where before anything has run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Tree(msgspec.Struct, frozen=True):
    """Files by the board's absolute path, and links to other paths of the board."""

    files: dict[str, bytes]
    links: dict[str, str]  # link -> what it points to, both absolute

    def put(self, folder: str, values: Mapping[str, object]) -> None:
        """Add a folder's files; each ends with a newline as the kernel's do."""
        for name, value in values.items():
            text = "\n".join(map(str, value)) if isinstance(value, tuple) else str(value)
            self.files[f"{folder}/{name}"] = f"{text}\n".encode()

    def link(self, path: str, target: str) -> None:
        """Add a link; it is written relative, as those in /sys are."""
        self.links[path] = target


def write_tree(tree: Tree, root: Path) -> None:
    """Write it below ``root``, which may exist; raises OSError."""
    for folder in sorted({path.rpartition("/")[0] for path in (*tree.files, *tree.links)}):
        (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, content in tree.files.items():
        (root / path.lstrip("/")).write_bytes(content)
    for path, target in tree.links.items():
        link = root / path.lstrip("/")
        link.symlink_to(os.path.relpath(target, Path(path).parent))
