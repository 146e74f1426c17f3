"""The binary files of CIFAR-10 and CIFAR-100: labelled images of 32 × 32 pixels.

A record is its label and 3072 bytes: 1024 of red, then green, then blue, each row by row. CIFAR-10
has one byte of label, 0 to 9; CIFAR-100 two, the coarse one of 20 and the fine one of 100, which is
taken here (A. Krizhevsky, https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version").
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError
from mansard.core.storage.files import open_file, read_whole, storage_errors

SUFFIX = ".bin"
_SIDE, _COLOURS = 32, 3
IMAGE_BYTES = _COLOURS * _SIDE * _SIDE
_MOST_BYTES = 1 << 30  # 50,000 images take 154 MB
_SETS = {1: ("CIFAR-10", 10), 2: ("CIFAR-100", 100)}  # by the bytes of a label


class CifarFile(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of file it is. ``labels``: the class of each image."""

    n_label_bytes: int
    labels: tuple[int, ...]

    def read_image(self, path: Path, at: int) -> npt.NDArray[np.uint8]:
        """The image at ``at``, height × width × colours; raises InputError, StorageError."""
        record = self.n_label_bytes + IMAGE_BYTES
        with storage_errors(path), open_file(path) as stream:
            stream.seek(at * record + self.n_label_bytes)
            data = stream.read(IMAGE_BYTES)
        if len(data) < IMAGE_BYTES:
            raise InputError(f"ends within image {at + 1:,}", where=str(path))
        planes = np.frombuffer(data, np.uint8).reshape(_COLOURS, _SIDE, _SIDE)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))


def read_cifar(path: Path) -> CifarFile:
    """What is in a file; raises InputError where it is cut short or has labels out of range."""
    data = np.frombuffer(read_whole(path, most_bytes=_MOST_BYTES), np.uint8)
    fitting = [n for n in _SETS if len(data) and len(data) % (n + IMAGE_BYTES) == 0]
    if not fitting:
        sizes = " or ".join(f"{n + IMAGE_BYTES:,} ({name})" for n, (name, _) in _SETS.items())
        raise InputError(
            f"has {len(data):,} bytes, which are no whole records of {sizes}",
            where=str(path),
            fix="it is cut short or another file: fetch it again",
        )
    problems = []
    for n_label_bytes in fitting:
        name, n_classes = _SETS[n_label_bytes]
        records = data.reshape(-1, n_label_bytes + IMAGE_BYTES)
        labels = records[:, n_label_bytes - 1]
        if labels.max() < n_classes:
            return CifarFile(n_label_bytes=n_label_bytes, labels=tuple(labels.tolist()))
        wrong = int(np.argmax(labels >= n_classes))
        problems.append(
            f"record {wrong + 1:,} has the label {labels[wrong]}, and {name} has {n_classes} "
            "classes"
        )
    raise InputError("; ".join(problems), where=str(path), fix="give a binary file of CIFAR")
