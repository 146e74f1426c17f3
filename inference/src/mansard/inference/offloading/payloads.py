"""Samples of a data set as they are sent: as the data set has them, not as a network is fed.

Of images the server does the preprocessing, so a JPEG file is sent as it is, and an image of
CIFAR-10 as its 3072 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.errors import UsageError
from mansard.core.records import ServedNetwork
from mansard.core.storage.files import read_whole
from mansard.inference.npz import StoredArray, stored_arrays
from mansard.inference.offloading.wire import MOST_BYTES, Payload
from mansard.inference.preparing.cifar import IMAGE_BYTES
from mansard.inference.preparing.datasets import DataSet, StoredArrays

MOST_BLOCK_BYTES = 512 << 20  # a block lies in memory, so that no disk is in its times


def check_sendable(dataset: DataSet, served: ServedNetwork) -> None:
    """Raise UsageError where the samples of ``dataset`` do not fit the served network."""
    if dataset.arrays is None:
        if not served.takes_images:
            raise UsageError(
                f"{served.model} on the server takes {served.input_type} "
                f"{list(served.input_shape)}, and the samples are images",
                where=str(dataset.path),
                fix="give the samples as arrays: --data x.npz",
            )
        return
    _array_name(dataset.arrays, served, str(dataset.path))


def payloads(
    dataset: DataSet,
    served: ServedNetwork,
    chosen: Sequence[int],
    most_bytes: int = MOST_BLOCK_BYTES,
) -> list[Payload]:
    """The samples at ``chosen``, in rising order; raises InputError, StorageError.

    Raises UsageError where they take more than ``most_bytes``, or do not fit the network.
    """
    if dataset.arrays is not None:
        dataset.check_unchanged()
        name = _array_name(dataset.arrays, served, str(dataset.path))
        with stored_arrays(dataset.path, [name]) as arrays:
            n_each = arrays[name].n_bytes // max(1, arrays[name].shape[0])
            _check_block(n_each * len(chosen), most_bytes, dataset)
            return _tensors(arrays[name], chosen)
    if dataset.cifar is not None:
        dataset.check_unchanged()
        _check_block(IMAGE_BYTES * len(chosen), most_bytes, dataset)
        images = (dataset.cifar.read_image(dataset.path, at) for at in chosen)
        return [Payload("pixels", "uint8", pixels.shape, pixels.tobytes()) for pixels in images]
    files, n_bytes = [], 0
    for at in chosen:
        dataset.check_unchanged(at)
        data = read_whole(dataset.path / dataset.images[at], most_bytes=MOST_BYTES)
        n_bytes += len(data)
        _check_block(n_bytes, most_bytes, dataset)
        files.append(Payload("image", "", (), data))
    return files


def _check_block(n_bytes: int, most_bytes: int, dataset: DataSet) -> None:
    if n_bytes > most_bytes:
        raise UsageError(
            f"the samples of a block take more than {most_bytes >> 20} MiB",
            where=str(dataset.path),
            fix="give a smaller --block",
        )


def _tensors(stored: StoredArray, chosen: Sequence[int]) -> list[Payload]:
    shape, name = tuple(stored.shape[1:]), stored.dtype.name
    sent, at = [], 0
    for wanted in chosen:
        while at < wanted:
            stored.rows(1)
            at += 1
        sent.append(Payload("tensor", name, shape, stored.rows(1).tobytes()))
        at += 1
    return sent


def _array_name(arrays: StoredArrays, served: ServedNetwork, where: str) -> str:
    """The array that is sent: with the input's name, else the only one of its type and shape."""
    wanted = (served.input_type, served.input_shape)
    fitting = [
        name
        for name, shape in arrays.shapes.items()
        if (arrays.types[name], tuple(shape[1:])) == wanted
    ]
    if served.input_name in fitting:
        return served.input_name
    if len(fitting) == 1:
        return fitting[0]
    raise UsageError(
        f"no array is {served.input_type} {list(served.input_shape)} a sample, as "
        f"{served.model} on the server takes for {served.input_name!r}",
        where=where,
        fix=f"add one under the name {served.input_name!r}",
    )
