"""Labelled samples that the user has: arrays in an .npz, images in a folder, a file of CIFAR.

Images have their class from a folder for each class, or from a file of labels: ``labels.csv`` or
``labels.txt`` among them, or another one. Nothing is decoded here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from mansard.core.errors import InputError, UsageError
from mansard.core.hashing import content_hash, stream_hash
from mansard.core.storage.files import open_file, read_whole, storage_errors
from mansard.inference.accuracy import read_labels
from mansard.inference.npz import npz_fault, stored_arrays
from mansard.inference.plan import LABELS
from mansard.inference.preparing.cifar import SUFFIX, CifarFile, read_cifar

_IMAGES = frozenset({".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
_LABEL_FILES = ("labels.csv", "labels.txt")
_MOST_DIGITS = 9  # of a class
_LAYOUT = "give a folder for each class, or labels.csv with lines IMAGE,CLASS"


class StoredArrays(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of an .npz: the shape of all samples and the type of each array."""

    shapes: dict[str, tuple[int, ...]]
    types: dict[str, str]


class DataSet(msgspec.Struct, frozen=True, kw_only=True):
    """Labelled samples, not yet fitted to a network.

    ``images``: paths below ``path``, in order; empty for an .npz, which has ``arrays``, and for a
    file of CIFAR. ``labels``: the class of each sample. ``n_folders``: how many folders number the
    classes, or None where labels are numbers. ``digests``: of each image, or of the file;
    ``content``: a hash of all.
    """

    path: Path
    images: tuple[str, ...]
    arrays: StoredArrays | None
    labels: tuple[int, ...] | None
    n_folders: int | None
    n_samples: int
    digests: tuple[str, ...]
    content: str
    cifar: CifarFile | None = None

    def check_unchanged(self, at: int = 0) -> None:
        """Raise InputError where the image at ``at``, or the file, has changed since."""
        name = self.images[at] if self.images else ""
        if _digest(self.path, name) != self.digests[at if name else 0]:
            raise InputError(
                "it was changed since it was looked at",
                where=str(self.path / name),
                fix="run the same command again",
            )

    @property
    def name(self) -> str:
        """The name of the data set."""
        name = self.path.resolve().name if self.images else self.path.stem
        return os.fsencode(name).decode("utf-8", "replace")


def find_dataset(path: Path, labels: Path | None = None) -> DataSet:
    """The data set at ``path``; raises UsageError, InputError or StorageError in one line.

    ``labels``: a file of labels; None: those in the .npz or of the folders.
    """
    if path.is_dir():
        return _images(path, labels)
    if not path.exists():
        fix = "give a folder, an .npz, or a .bin of CIFAR"
        raise UsageError(f"there is no data set {str(path)!r}", fix=fix)
    if path.suffix.lower() == SUFFIX:
        return _cifar(path, labels)
    return _arrays(path, labels)


def _arrays(path: Path, labels_file: Path | None) -> DataSet:
    with stored_arrays(path) as arrays:
        inputs = {name: array for name, array in arrays.items() if name != LABELS}
        is_labelled = LABELS in arrays
        shapes = {name: tuple(array.shape) for name, array in inputs.items()}
        by_column = [name for name, array in inputs.items() if array.is_by_column]
        types = {name: array.dtype.name for name, array in inputs.items()}
    if by_column:
        raise InputError(
            f"array {by_column[0]!r} is stored by columns",
            where=str(path),
            fix="write numpy.ascontiguousarray(ARRAY)",
        )
    if not inputs:
        raise npz_fault("it has no array of inputs", path)
    sizes = {shape[0] if shape else None for shape in shapes.values()}
    if len(sizes) > 1 or None in sizes:
        raise npz_fault("its arrays have different numbers of samples", path)
    (n_samples,) = sizes
    if not n_samples:
        raise npz_fault("it is empty", path)
    classes: tuple[int, ...] | None = None
    if labels_file is not None:
        classes = _in_order(_read_lines(labels_file), n_samples, labels_file)
    elif is_labelled:
        classes = tuple(read_labels(path).tolist())
        _check_number(len(classes), n_samples, path)
    digest = _digest(path)
    return DataSet(
        path=path,
        images=(),
        arrays=StoredArrays(shapes=shapes, types=types),
        labels=classes,
        n_folders=None,
        n_samples=n_samples,
        digests=(digest,),
        content=content_hash([digest, classes]),
    )


def _cifar(path: Path, labels_file: Path | None) -> DataSet:
    cifar = read_cifar(path)
    classes, digest = cifar.labels, _digest(path)
    if labels_file is not None:
        classes = _in_order(_read_lines(labels_file), len(classes), labels_file)
    return DataSet(
        path=path,
        images=(),
        arrays=None,
        labels=classes,
        n_folders=None,
        n_samples=len(classes),
        digests=(digest,),
        content=content_hash([digest, classes]),
        cifar=cifar,
    )


def _images(path: Path, labels_file: Path | None) -> DataSet:
    with storage_errors(path):
        images = sorted(
            file.relative_to(path).as_posix()
            for file in path.rglob("*")
            if file.suffix.lower() in _IMAGES and file.is_file()
        )
    if not images:
        batches = sorted(file.name for file in path.glob(f"*{SUFFIX}"))
        fix = f"give one of its files, such as {path / batches[-1]}" if batches else _LAYOUT
        raise InputError("there are no images", where=str(path), fix=fix)
    if labels_file is None:
        beside = (path / name for name in _LABEL_FILES)
        labels_file = next((candidate for candidate in beside if candidate.is_file()), None)
    labels: tuple[int, ...] | None
    n_folders = None
    if labels_file is not None:
        labels = _by_name(_read_lines(labels_file), images, labels_file)
    else:
        labels, n_folders = _by_folder(images, path)
    digests = tuple(_digest(path, name) for name in images)
    return DataSet(
        path=path,
        images=tuple(images),
        arrays=None,
        labels=labels,
        n_folders=n_folders,
        n_samples=len(images),
        digests=digests,
        content=content_hash([digests, labels]),
    )


def _digest(path: Path, name: str = "") -> str:
    """The digest of the file at ``path``, or of its image ``name``."""
    with storage_errors(path / name), open_file(path / name) as stream:
        return stream_hash(stream, os.fsencode(name))


def _by_folder(images: Sequence[str], path: Path) -> tuple[tuple[int, ...] | None, int | None]:
    """The class of each image by the folder that it is in, and how many folders there are."""
    folders = [name.split("/")[0] if "/" in name else "" for name in images]
    names = sorted(set(folders))
    if names == [""]:
        return None, None
    if "" in names:
        raise InputError(
            "images lie in folders and beside them, so their classes are unknown",
            where=str(path),
            fix=_LAYOUT,
        )
    if all(name.isdecimal() for name in names):
        return tuple(int(name) for name in folders), None
    numbers = {name: number for number, name in enumerate(names)}
    return tuple(numbers[name] for name in folders), len(names)


def _read_lines(path: Path) -> list[tuple[str, int]]:
    """Name (may be empty) and class from each line; raises InputError."""
    try:
        text = read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "it is not text", where=str(path), fix="write IMAGE,CLASS lines"
        ) from error
    labels = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        parts = line.rsplit("," if "," in line else None, 1)
        name, label = ("", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
        label = label.strip()
        if not (label.isdecimal() and len(label) <= _MOST_DIGITS):
            if number == 1 and not any(field.isdecimal() for field in label):  # names of columns
                continue
            raise InputError(
                f"line {number} has no class: {line.strip()[:40]!r}",
                where=str(path),
                fix="write IMAGE,CLASS, or CLASS, where a class is a number from 0 on",
            )
        labels.append((name.strip().strip('"'), int(label)))
    if not labels:
        raise InputError("it has no labels", where=str(path), fix="write IMAGE,CLASS lines")
    return labels


def _in_order(lines: Sequence[tuple[str, int]], n_samples: int, path: Path) -> tuple[int, ...]:
    _check_number(len(lines), n_samples, path)
    return tuple(label for _, label in lines)


def _check_number(n_labels: int, n_samples: int, path: Path) -> None:
    if n_labels != n_samples:
        raise InputError(
            f"there are {n_labels} labels and {n_samples} samples",
            where=str(path),
            fix="give one label for each sample, in their order",
        )


def _by_name(
    lines: Sequence[tuple[str, int]], images: Sequence[str], path: Path
) -> tuple[int, ...]:
    if not any(name for name, _ in lines):
        return _in_order(lines, len(images), path)
    by_alias: dict[str, str] = {}
    for image in images:
        inside = Path(image)
        for alias in {inside.stem, inside.name}:
            by_alias[alias] = "" if alias in by_alias else image  # of two images it names neither
    by_alias |= {image: image for image in images}
    labels: dict[str, int] = {}
    for name, label in lines:
        image = by_alias.get(name.removeprefix("./"), "")
        if not image:
            raise InputError(
                f"{name!r} is none of the images, or several of them",
                where=str(path),
                fix="write its path below the folder of the images, or remove its line",
            )
        if labels.setdefault(image, label) != label:
            raise InputError(f"{name!r} has two classes", where=str(path), fix="keep one")
    missing = [image for image in images if image not in labels]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(images)} images have no label, the first is {missing[0]!r}",
            where=str(path),
            fix="add them, or take the images out",
        )
    return tuple(labels[image] for image in images)


def spread_indexes(n_all: int, most: int | None) -> tuple[int, ...]:
    """``most`` of ``n_all`` samples, evenly spread; all where there are fewer."""
    n_wanted = n_all if most is None else min(most, n_all)
    return tuple(int(at) for at in np.arange(n_wanted, dtype=np.int64) * n_all // n_wanted)
