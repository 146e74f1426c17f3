"""Reading a model's file: its hash, and the part of it that is not weights."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import BinaryIO

from mansard.core.errors import StorageError
from mansard.core.files import storage_error
from mansard.core.hashing import file_hash
from mansard.estimator.graph.wire import without_payloads

WHOLE_BYTES = 1 << 24  # a file up to this size is read at once: quicker than walking it
_CHUNK_BYTES = 1 << 20


def read_source(path: Path) -> tuple[bytes, str]:
    """The model's bytes, without payloads if it is large, and the SHA-256 of the whole file.

    Raises StorageError where the file cannot be read, ModelError where it is damaged.
    """
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            # A pipe would wait for ever, a device never end.
            raise StorageError("is not a regular file", where=str(path), fix="give a model's file")
        with path.open("rb") as stream:
            if status.st_size <= WHOLE_BYTES:
                data = stream.read()
                return data, file_hash(data)
            return without_payloads(stream, status.st_size), _hash(stream)
    except OSError as error:
        raise storage_error(error, path) from error
    except ValueError as error:  # a path with a zero byte in it
        raise StorageError(str(error), where=str(path), fix="check the path") from error


def _hash(stream: BinaryIO) -> str:
    stream.seek(0)
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
