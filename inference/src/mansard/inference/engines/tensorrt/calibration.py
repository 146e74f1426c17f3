"""Ranges of activations for int8, found by running samples: entropy calibration, up to 10.x.

The builder asks for batches and runs the network on each. What it finds is kept in a cache, so
that the next build of the same network with the same samples runs none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mansard.core.errors import InputError, MansardError, MeasurementError, StorageError
from mansard.core.hashing import content_hash
from mansard.core.storage.files import read_whole, write_atomic
from mansard.inference.inputs import numpy_name
from mansard.inference.npz import Array, StoredArray, read_arrays
from mansard.inference.plan import BuildTrial, InputSpec

_FIX = "give an .npz with an array for each input, whose first dimension is the samples"


class DeviceMemory(Protocol):
    """Device memory, by address."""

    def allocate(self, n_bytes: int) -> int: ...

    def copy_in(self, address: int, array: Array) -> None: ...

    def free(self, address: int) -> None: ...


class SampleFeed:
    """The samples of a file in batches of the network's, on the device one after the other.

    ``stopped``: what went wrong in a call of the builder's, through which nothing can be raised.
    """

    def __init__(
        self, batches: Sequence[Mapping[str, Array]], memory: DeviceMemory, cache: Path
    ) -> None:
        self.stopped: BaseException | None = None
        self.batch_size = max(
            (len(array) for array in batches[0].values() if array.ndim), default=1
        )
        self._n_batches, self._was_cached = len(batches), False
        self._batches, self._memory, self._cache = iter(batches), memory, cache
        self._addresses: dict[str, int] = {}
        with contextlib.ExitStack() as made:  # all or nothing
            made.callback(self.close)
            for name, array in batches[0].items():
                self._addresses[name] = memory.allocate(array.nbytes)
            made.pop_all()

    def next_batch(self, names: Sequence[str]) -> list[int] | None:
        """The addresses of the inputs ``names``, with the next batch in them; None: no more."""
        try:
            batch = next(self._batches, None)
            if batch is None:
                return None
            for name in names:
                self._memory.copy_in(self._addresses[name], batch[name])
            return [self._addresses[name] for name in names]
        except BaseException as error:
            self.stopped = error
            return None

    def read_cache(self) -> bytes | None:
        """The cache of an earlier calibration, or None."""
        try:
            cached = read_whole(self._cache) if self._cache.exists() else None
        except StorageError:  # it is calibrated anew
            return None
        self._was_cached = cached is not None
        return cached

    def write_cache(self, ranges: bytes) -> None:
        """Store the ranges that the calibration computed."""
        try:
            write_atomic(self._cache, ranges)
        except MansardError as error:
            self.stopped = error

    @property
    def in_words(self) -> str:
        """The calibration in words."""
        how = ", from the cache" if self._was_cached else ""
        return f"entropy, {self._n_batches} batches of {self.batch_size}{how}"

    def close(self) -> None:
        """Free the device memory."""
        for address in self._addresses.values():
            self._memory.free(address)
        self._addresses.clear()


def open_samples(trial: BuildTrial, folder: Path, into: Path, memory: DeviceMemory) -> SampleFeed:
    """The samples of ``trial``, with their cache in ``into``; raises as ``read_batches``."""
    cache = f"calibration-{content_hash([trial.file_hash, trial.settings.calibration_hash])}.cache"
    return SampleFeed(read_batches(trial, folder), memory, into / cache)


def read_batches(trial: BuildTrial, folder: Path) -> tuple[Mapping[str, Array], ...]:
    """The samples of the trial's file in whole batches of its inputs' shapes.

    Samples that do not fill the last batch are left out. Raises MeasurementError where there is no
    file, or where it lacks an input, has too few samples, or another shape or kind of numbers.
    """
    name = trial.settings.calibration_file
    if not name:
        raise MeasurementError("int8 needs data to calibrate with", fix=_FIX)

    def check(stored: Mapping[str, StoredArray]) -> None:
        for spec in trial.input_specs:
            _check(spec, stored.get(spec.name), name)

    try:
        arrays = read_arrays(folder / name, [spec.name for spec in trial.input_specs], check)
    except (InputError, StorageError) as error:
        raise MeasurementError(error.what, where=name, fix=error.fix) from error
    n_batches = min(
        (arrays[spec.name].shape[0] // spec.shape[0] for spec in trial.input_specs if spec.shape),
        default=0,
    )
    if n_batches == 0:
        raise MeasurementError("no input of the network has samples", where=trial.model)
    return tuple(
        {
            spec.name: _batch(spec, arrays[spec.name], index) if spec.shape else arrays[spec.name]
            for spec in trial.input_specs
        }
        for index in range(n_batches)
    )


def _batch(spec: InputSpec, array: Array, index: int) -> Array:
    size = spec.shape[0]
    part = array[index * size : (index + 1) * size]
    return np.ascontiguousarray(part, dtype=numpy_name(spec.type_name))


def _check(spec: InputSpec, array: StoredArray | None, file: str) -> None:
    if array is None:
        raise MeasurementError(
            f"it has no samples of the input {spec.name!r}", where=file, fix=_FIX
        )
    if array.shape[1:] != spec.shape[1:] or len(array.shape) != len(spec.shape):
        wanted = ["samples", *map(str, spec.shape[1:])] if spec.shape else []
        raise MeasurementError(
            f"{spec.name!r} is {list(array.shape)}, not [{', '.join(wanted)}]", where=file, fix=_FIX
        )
    if spec.shape and array.shape[0] < spec.shape[0]:
        raise MeasurementError(
            f"{spec.name!r} has {array.shape[0]} samples, fewer than one batch of {spec.shape[0]}",
            where=file,
            fix="give more samples, or use a smaller batch",
        )
    if not np.can_cast(array.dtype, numpy_name(spec.type_name), "same_kind"):
        raise MeasurementError(
            f"{spec.name!r} is {array.dtype.name}, the network wants {spec.type_name}", where=file
        )


def calibrator(bindings: Any, samples: SampleFeed) -> Any:
    """``samples`` as a calibrator of TensorRT's; the caller keeps it until the build has ended."""

    class Calibrator(bindings.IInt8EntropyCalibrator2):  # type: ignore[misc]
        """Gives the builder batches, and the cache of an earlier calibration."""

        def __init__(self) -> None:
            bindings.IInt8EntropyCalibrator2.__init__(self)

        def get_batch_size(self) -> int:
            return samples.batch_size

        def get_batch(self, names: Sequence[str]) -> list[int] | None:
            return samples.next_batch(names)

        def read_calibration_cache(self) -> bytes | None:
            return samples.read_cache()

        def write_calibration_cache(self, cache: Any) -> None:
            samples.write_cache(bytes(cache))

    return Calibrator()
