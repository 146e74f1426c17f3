"""Reading a model: its bytes without weights, and the hash that names it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from mansard.core.errors import ModelError, StorageError
from mansard.core.files import storage_error
from mansard.core.hashing import file_hash
from mansard.estimator.graph.formats import HEAD_BYTES, recognised
from mansard.estimator.graph.reading import find_parts
from mansard.estimator.graph.skeleton import skeleton
from mansard.estimator.graph.walking import Source

WHOLE_BYTES = 1 << 24  # a file up to this size is read at once
_WINDOW_BYTES = 1 << 14  # after each tensor that is skipped, a new one is read


class Memory:
    """A model in memory."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = data

    def read(self, start: int, n_bytes: int) -> bytes:
        return self._data[start : start + n_bytes]

    def window(self, start: int) -> tuple[bytes, int]:  # noqa: ARG002 - all of it, always
        return self._data, 0


class File:
    """A model in an open file, however large; only what is asked for is read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        self._descriptor = descriptor

    def read(self, start: int, n_bytes: int) -> bytes:
        return os.pread(self._descriptor, n_bytes, start)

    def window(self, start: int) -> tuple[bytes, int]:
        return self.read(start, _WINDOW_BYTES), start


def read_source(source: Path | bytes) -> tuple[bytes, str]:
    """The model's bytes without its weights, and their SHA-256.

    The hash thus names the network, not its weights; of a model without long contents it
    is the file's own. Two models of one hash have one score.

    Raises StorageError where a file cannot be read, ModelError where it is no ONNX model.
    """
    if isinstance(source, bytes):
        return _read(Memory(source))
    try:
        status = source.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            # A pipe would wait for ever, a device never end.
            raise StorageError(
                "is not a regular file", where=str(source), fix="give a model's file"
            )
        with source.open("rb") as stream:
            if status.st_size <= WHOLE_BYTES:
                return _read(Memory(stream.read(status.st_size)))  # no log that never ends
            return _read(File(stream.fileno(), status.st_size))
    except OSError as error:
        raise storage_error(error, source) from error
    except ValueError as error:  # a path with a zero byte in it
        raise StorageError(str(error), where=str(source), fix="check the path") from error


def _read(source: Source) -> tuple[bytes, str]:
    try:
        data = skeleton(source)
        find_parts(data)
    except ModelError as error:
        raise recognised(source.read(0, HEAD_BYTES)) or error from error
    return data, file_hash(data)
