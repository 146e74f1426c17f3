"""The arrays that a network is fed, made from their specs. NumPy alone; the same seed, the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mansard.core.errors import InputError, MeasurementError, StorageError
from mansard.inference.npz import Array, StoredArray, read_arrays
from mansard.inference.plan import InputSpec, NetworkTrial

_BITS = {"bfloat16": "uint16"}  # types that NumPy lacks: an array holds their bits


def numpy_name(type_name: str) -> str:
    """NumPy's name of an input's type; for a type that NumPy lacks, that of its bits."""
    return _BITS.get(type_name, type_name)


def make_inputs(trial: NetworkTrial, folder: Path, seed: int) -> dict[str, Array]:
    """One array for each input of ``trial``, by name; each depends on its spec and ``seed`` alone.

    ``folder``: of the files that the trial names. Arrays of bfloat16 hold its bits as uint16.
    Raises MeasurementError where the file of inputs lacks one, or has another shape or type.
    """
    from_file = [spec for spec in trial.input_specs if spec.fill == "file"]
    try:
        stored = _read(from_file, folder / trial.inputs_file) if from_file else {}
    except (InputError, StorageError) as error:
        raise MeasurementError(error.what, where=trial.inputs_file) from error
    return {
        spec.name: stored[spec.name] if spec.fill == "file" else _made(spec, seed)
        for spec in trial.input_specs
    }


def _read(specs: Sequence[InputSpec], path: Path) -> dict[str, Array]:
    def check(stored: Mapping[str, StoredArray]) -> None:
        for spec in specs:
            _check(spec, stored.get(spec.name), path.name)

    arrays = read_arrays(path, [spec.name for spec in specs], check)
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def spec_arrays(spec: InputSpec, seed: int, n_arrays: int) -> Iterator[Array]:
    """Several arrays for one input, each from its own seed."""
    for number in range(n_arrays):
        yield _made(spec, seed + number)


def _made(spec: InputSpec, seed: int) -> Array:
    if spec.fill == "ones":
        return cast(np.ones(spec.shape, np.float32), spec.type_name)
    rng = np.random.default_rng((seed, zlib.crc32(spec.name.encode())))
    if spec.fill == "integers":
        integers: Array = rng.integers(int(spec.low), int(spec.high), spec.shape, dtype=np.int64)
        return integers.astype(numpy_name(spec.type_name))
    numbers = rng.random(spec.shape, dtype=np.float32)
    numbers *= np.float32(spec.high - spec.low)
    numbers += np.float32(spec.low)
    return cast(numbers, spec.type_name)


def cast(numbers: npt.NDArray[np.float32], type_name: str) -> Array:
    """``numbers`` in the type of an input."""
    if type_name == "bfloat16":  # the upper half of a float32
        return (np.ascontiguousarray(numbers).view(np.uint32) >> 16).astype(np.uint16)
    return numbers.astype(type_name, copy=False)


def _check(spec: InputSpec, array: StoredArray | None, file: str) -> None:
    if array is None:
        raise MeasurementError(f"there is no array {spec.name!r}", where=file)
    if (array.shape, array.dtype.name) != (spec.shape, numpy_name(spec.type_name)):
        raise MeasurementError(
            f"{spec.name!r} is {array.dtype.name} {list(array.shape)}, "
            f"the network wants {spec.type_name} {list(spec.shape)}",
            where=file,
        )
