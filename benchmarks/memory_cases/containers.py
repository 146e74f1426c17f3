"""Engines that answer without an end, and saved images that expand without one."""

from __future__ import annotations

import gzip
import hashlib
import sys
import tarfile
from functools import partial
from pathlib import Path

from memory_cases.case import Case, Run

_ROOT = Path(__file__).resolve().parents[2]
_ENTRY = "import sys; from mansard.cli.__main__ import main; sys.exit(main())"
_NOWHERE = "/no such question"  # what no command asks: the engine then answers as it should
_MEMBER = gzip.compress(bytes(64 << 20))  # 64 MiB of zeros in 65 KB


def _beside(path: str, flood: str, *command: str) -> Run:
    program = (sys.executable, str(Path(__file__).with_name("flooded.py")), path, flood)
    mansard = (sys.executable, "-c", _ENTRY, *command, "--container-engine", "ENGINE")
    return Run((*program, *mansard), {"PYTHONPATH": str(_ROOT)})


def _flood(path: str, name: str, _: Path, is_attack: bool) -> Run:
    return _beside(path if is_attack else _NOWHERE, name, "image", "list")


def _zeros(n_members: int, folder: Path, is_attack: bool) -> Run:
    """An archive whose one layer is so many times 64 MiB of zeros; usually it is small."""
    path = folder / "image.tar.gz"
    entry = tarfile.TarInfo("a/layer.tar")
    entry.size = (n_members << 26) if is_attack else 0
    with path.open("wb") as stream:
        stream.write(gzip.compress(entry.tobuf(tarfile.GNU_FORMAT)))
        for _ in range(n_members if is_attack else 0):
            stream.write(_MEMBER)
        stream.write(gzip.compress(bytes(1024)))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{digest}  {path.name}\n")
    return _beside(_NOWHERE, "a body that never ends", "image", "load", path.name)


_FLOODS = (
    "a body that never ends",
    "a header that never ends",
    "headers that never end",
    "for ever to be continued",
    "tiny chunks",
    "a length of a chunk that never ends",
    "a chunk of a terabyte",
    "compressed zeros",
)
CASES = (
    *(Case(f"engine: {name}", partial(_flood, "/version", name)) for name in _FLOODS),
    Case("engine: images without an end", partial(_flood, "/images/json", _FLOODS[0])),
    Case("a saved image of 30 GB in 31 MB", partial(_zeros, 480)),
)
