"""A data set for one network: checked against its inputs, and written for the engine's process.

Samples are written one by one into an uncompressed .npz, so a set of any size needs the memory of a
few. Images are stored as pixels, which take a quarter of the bytes of floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import msgspec
import numpy as np
import numpy.typing as npt

from mansard.core.errors import UsageError
from mansard.core.hashing import content_hash
from mansard.core.storage.files import replacing, storage_errors
from mansard.inference.accuracy import normalised
from mansard.inference.inputs import numpy_name, spec_arrays
from mansard.inference.npz import Array, stored_arrays
from mansard.inference.plan import LABELS, InputSpec, PreparedSamples
from mansard.inference.preparing.datasets import DataSet, StoredArrays, spread_indexes
from mansard.inference.preparing.preprocessing import (
    FittedPreprocessing,
    Preprocessing,
    as_sample,
    fit,
    read_image,
)
from mansard.inference.preparing.sources import check_free

CALIBRATION_SAMPLES = 128  # at most; ranges change little with more
_RANDOM_BATCHES = 8  # of networks with random weights


class SampleChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Samples for one network: which of a data set, and the file that they become.

    ``dataset`` None: they are drawn from ``seed``, as the inputs of a measurement are. ``how``: of
    images. ``is_for_calibration``: as the numbers that the network is fed with, and without labels.
    """

    dataset: DataSet | None
    indexes: tuple[int, ...] = ()
    specs: tuple[InputSpec, ...]
    how: FittedPreprocessing | None = None
    file: PreparedSamples
    is_for_calibration: bool
    seed: int = 0


def samples_for(
    dataset: DataSet,
    specs: Sequence[InputSpec],
    asked: Preprocessing,
    *,
    most: int | None = None,
    n_classes: int | None = None,
    is_for_calibration: bool = False,
) -> SampleChoice:
    """``dataset`` for a network of the inputs ``specs``; ``most`` of it, evenly spread.

    ``n_classes``: that the network tells apart; labels have to be among them. Raises UsageError
    where the samples do not fit.
    """
    check_batched(specs)
    how = None
    if dataset.arrays is None:
        if len(specs) != 1:
            names = ", ".join(spec.name for spec in specs)
            raise UsageError(
                f"the network has the inputs {names}, and images fit networks of one",
                where=str(dataset.path),
                fix="give the samples as arrays: --data x.npz",
            )
        how = fit(asked, specs[0])
    else:
        _check_arrays(dataset.arrays, dataset, specs)
    if n_classes is not None:
        _check_labels(dataset, n_classes)
    indexes = spread_indexes(dataset.n_samples, CALIBRATION_SAMPLES if is_for_calibration else most)
    of_one = [(spec.name, spec.type_name, spec.shape[1:]) for spec in specs]  # not the batch
    digest = content_hash([dataset.content, indexes, how, of_one])
    use = "calibration" if is_for_calibration else "samples"
    file = PreparedSamples(
        file=f"{use}-{digest}.npz",
        file_hash=digest,
        name=dataset.name,
        n_samples=len(indexes),
        is_labelled=dataset.labels is not None and not is_for_calibration,
        preprocessing=_words(how),
        normalisation=None if how is None or is_for_calibration else how.normalisation,
        unknown={"normalisation": "the arrays are fed as they are"}
        if how is None or is_for_calibration or how.normalisation is None
        else {},
    )
    return SampleChoice(
        dataset=dataset,
        indexes=indexes,
        specs=tuple(specs),
        how=how,
        file=file,
        is_for_calibration=is_for_calibration,
    )


def random_samples(specs: Sequence[InputSpec], seed: int) -> SampleChoice:
    """Random samples to calibrate with.

    Raises UsageError as ``check_batched``, and for inputs that the user gives: ranges of other
    numbers would not be theirs.
    """
    check_batched(specs)
    if any(spec.fill == "file" for spec in specs):
        raise UsageError(
            "int8 is not calibrated with random numbers where --inputs gives others",
            fix="give the same file, or more samples, as --calibration",
        )
    digest = content_hash([seed, specs])
    file = PreparedSamples(
        file=f"calibration-{digest}.npz",
        file_hash=digest,
        name="random",
        n_samples=_RANDOM_BATCHES * specs[0].shape[0],
        is_labelled=False,
        preprocessing="",
        normalisation=None,
        unknown={"normalisation": "the arrays are fed as they are"},
    )
    return SampleChoice(
        dataset=None, specs=tuple(specs), file=file, is_for_calibration=True, seed=seed
    )


def check_batched(specs: Sequence[InputSpec]) -> None:
    """Raise UsageError unless every input has one sample in each row."""
    sizes = {spec.shape[0] if spec.shape else None for spec in specs}
    if len(sizes) != 1 or None in sizes:
        shapes = ", ".join(f"{spec.name} {list(spec.shape)}" for spec in specs) or "none"
        raise UsageError(
            f"its inputs ({shapes}) do not begin with one batch dimension, so no samples fit them",
            fix="leave --data and --precision int8 out",
        )


def _words(how: FittedPreprocessing | None) -> str:
    if how is None:
        return "arrays as they are"
    from PIL import __version__

    return f"{how.words}; Pillow {__version__}"


def _check_arrays(arrays: StoredArrays, dataset: DataSet, specs: Sequence[InputSpec]) -> None:
    for spec in specs:
        shape = arrays.shapes.get(spec.name)
        if shape is None:
            raise UsageError(
                f"there is no array for input {spec.name!r}",
                where=str(dataset.path),
                fix=f"it has {', '.join(sorted(arrays.shapes))}; call the arrays as the inputs "
                "of the network",
            )
        stored = (arrays.types[spec.name], shape[1:])
        if stored != (numpy_name(spec.type_name), spec.shape[1:]):
            raise UsageError(
                f"samples of {spec.name!r} are {stored[0]} {list(stored[1])}, the network wants "
                f"{spec.type_name} {list(spec.shape[1:])}",
                where=str(dataset.path),
            )


def _check_labels(dataset: DataSet, n_classes: int) -> None:
    if dataset.n_folders is not None and dataset.n_folders != n_classes:
        raise UsageError(
            f"there are {dataset.n_folders} folders and the network has {n_classes} classes, so "
            "which class each folder is remains unknown",
            where=str(dataset.path),
            fix="call the folders by the number of their class, or give labels.csv with lines "
            "IMAGE,CLASS",
        )
    labels = dataset.labels
    if labels is not None and not 0 <= min(labels) <= max(labels) < n_classes:
        wrong = min(labels) if min(labels) < 0 else max(labels)
        raise UsageError(
            f"label {wrong} is none of the network's {n_classes} classes, 0 to {n_classes - 1}",
            where=str(dataset.path),
            fix="number the classes as the network does, from 0 on",
        )


def write_samples(samples: SampleChoice, folder: Path) -> str:
    """Write the file of ``samples`` into ``folder`` unless it exists; returns its name.

    Raises InputError for an image that cannot be read or has changed since the data set was read,
    StorageError also where there is too little space.
    """
    path = folder / samples.file.file
    if path.exists():
        return path.name
    arrays = _arrays(samples)
    n_bytes = sum(prod(shape) * kind.itemsize for shape, kind, _ in arrays.values())
    check_free(n_bytes, folder, f"{samples.file.in_words} need")
    with storage_errors(path), replacing(path) as stream:
        _write_npz(stream, arrays)
    return path.name


_Rows = tuple[tuple[int, ...], Any, Iterable[Array]]  # shape, type, and the rows some at a time


def _arrays(samples: SampleChoice) -> Mapping[str, _Rows]:
    dataset, chosen, how = samples.dataset, samples.indexes, samples.how
    arrays: dict[str, _Rows] = {}
    for spec in samples.specs:
        shape = (samples.file.n_samples, *spec.shape[1:])
        kind: np.dtype[Any] = np.dtype(numpy_name(spec.type_name))
        if dataset is None:
            rows: Iterable[Array] = spec_arrays(spec, samples.seed, _RANDOM_BATCHES)
        elif how is None:
            dataset.check_unchanged()
            rows = _read_rows(dataset.path, spec.name, chosen)
        else:
            is_numbers = samples.is_for_calibration and how.normalisation is not None
            shape = (len(chosen), *how.shape)
            kind = np.dtype(np.float32 if is_numbers else np.uint8)
            rows = _read_images(dataset, samples, how)
        arrays[spec.name] = (shape, kind, rows)
    if dataset is None:
        return arrays
    if samples.file.is_labelled and dataset.labels is not None:
        labels = np.array([dataset.labels[at] for at in chosen], np.int64)
        arrays[LABELS] = (labels.shape, labels.dtype, [labels])
    return arrays


def _read_images(
    dataset: DataSet, samples: SampleChoice, how: FittedPreprocessing
) -> Iterator[Array]:
    if dataset.cifar is not None:
        dataset.check_unchanged()
    for at in samples.indexes:
        pixels: Array
        if dataset.cifar is not None:
            pixels = as_sample(dataset.cifar.read_image(dataset.path, at), how)[None]
        else:
            dataset.check_unchanged(at)
            pixels = read_image(dataset.path / dataset.images[at], how)[None]
        if samples.is_for_calibration and how.normalisation is not None:
            pixels = normalised(pixels, how.normalisation)
        yield pixels


def _read_rows(path: Path, name: str, chosen: Sequence[int]) -> Iterator[Array]:
    wanted, last = set(chosen), max(chosen)
    with stored_arrays(path, [name]) as arrays:
        for at in range(last + 1):
            row = arrays[name].rows(1)
            if at in wanted:
                yield row


def _write_npz(stream: IO[bytes], arrays: Mapping[str, _Rows]) -> None:
    """As ``numpy.savez``, but a few rows at a time."""
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        for name, (shape, kind, rows) in arrays.items():
            with archive.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                header = {"descr": kind.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                n_bytes = 0
                for row in rows:
                    data: npt.NDArray[Any] = np.ascontiguousarray(row, kind)
                    member.write(data.tobytes())
                    n_bytes += data.nbytes
                if n_bytes != prod(shape) * kind.itemsize:
                    raise ValueError(f"{name} has {n_bytes} bytes, and should have another number")
