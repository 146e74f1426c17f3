"""What a run folder was when it was read: unchanged files are not read again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mansard.analytics.data.frames import to_json
from mansard.analytics.data.layout import LAYOUT
from mansard.core.files import check_regular, storage_error

MANIFEST, TRIALS, SAMPLES = "manifest.json", "trials.jsonl", "samples.jsonl"
_PIECE_BYTES = 1024**2


def shown_folder(folder: Path) -> str:
    """The name of a run's folder as text; bytes that are no UTF-8 are escaped."""
    return os.fsencode(folder.name).decode("utf-8", "backslashreplace")


def stamps_json(folder: Path) -> str:
    """Length and time of change of each file of a run, as text; raises StorageError."""
    found: dict[str, list[int] | None] = {}
    for name in (MANIFEST, TRIALS, SAMPLES):
        try:
            status = (folder / name).stat()
            found[name] = [status.st_size, status.st_mtime_ns]
        except FileNotFoundError:
            found[name] = None
        except OSError as error:
            raise storage_error(error, folder / name) from error
    return to_json(found)


def content_of(folder: Path) -> str:
    """A hash of what the files of a run hold, and of the layout made of it, 32 digits."""
    digest = hashlib.sha256(LAYOUT.encode())
    for name in (MANIFEST, TRIALS, SAMPLES):
        path = folder / name
        try:
            if path.exists():
                check_regular(path)
                digest.update(f"{name} {path.stat().st_size}\n".encode())
                with path.open("rb") as stream:
                    while piece := stream.read(_PIECE_BYTES):
                        digest.update(piece)
        except OSError as error:
            raise storage_error(error, path) from error
    return digest.hexdigest()[:32]
