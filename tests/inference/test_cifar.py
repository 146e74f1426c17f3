"""The binary files of CIFAR-10 and CIFAR-100 as a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mansard.core.errors import InputError, MansardError
from mansard.inference.npz import read_arrays
from mansard.inference.plan import InputSpec
from mansard.inference.preparing import (
    find_dataset,
    parse_preprocessing,
    samples_for,
    write_samples,
)
from tests.inference.cifar_files import write_cifar

IMAGE = InputSpec(name="image", type_name="float32", shape=(1, 3, 32, 32), fill="uniform")


def planes(*values: int) -> np.ndarray:
    """One image whose red, green and blue planes have these values."""
    return np.repeat(np.array(values, np.uint8)[:, None], 1024, axis=1).reshape(1, 3, 32, 32)


def test_a_file_of_cifar_10_is_a_labelled_data_set(tmp_path: Path) -> None:
    path = tmp_path / "test_batch.bin"
    images = np.concatenate([planes(1, 2, 3), planes(40, 50, 60)])
    images[1, 0, 0, 31] = 7  # red, in the first row, the last column
    write_cifar(path, [3, 9], images)
    assert path.stat().st_size == 2 * 3073
    dataset = find_dataset(path)
    assert (dataset.name, dataset.labels, dataset.n_samples) == ("test_batch", (3, 9), 2)
    chosen = samples_for(dataset, [IMAGE], parse_preprocessing("unit"), n_classes=10)
    stored = read_arrays(tmp_path / write_samples(chosen, tmp_path))
    assert stored["labels"].tolist() == [3, 9]
    np.testing.assert_array_equal(stored["image"], images)  # channels first, as they lie


def test_the_fine_label_of_cifar_100_counts(tmp_path: Path) -> None:
    path = tmp_path / "test.bin"
    write_cifar(path, [99, 0], np.concatenate([planes(0, 0, 0)] * 2), coarse=[19, 3])
    assert path.stat().st_size == 2 * 3074
    assert find_dataset(path).labels == (99, 0)


def test_channels_last_and_other_sizes_are_fitted(tmp_path: Path) -> None:
    path = tmp_path / "test_batch.bin"
    write_cifar(path, [1], planes(10, 20, 30))
    spec = InputSpec(name="x", type_name="float32", shape=(1, 64, 64, 3), fill="uniform")
    chosen = samples_for(find_dataset(path), [spec], parse_preprocessing("raw"))
    stored = read_arrays(tmp_path / write_samples(chosen, tmp_path))["x"]
    # An image of one colour has this colour in any size.
    assert stored.shape == (1, 64, 64, 3)
    assert stored[0, 5, 60].tolist() == [10, 20, 30]


def test_labels_beside_the_file_take_the_place_of_its_own(tmp_path: Path) -> None:
    path, labels = tmp_path / "test_batch.bin", tmp_path / "labels.txt"
    write_cifar(path, [1, 2], np.concatenate([planes(0, 0, 0)] * 2))
    labels.write_text("7\n8\n")
    assert find_dataset(path, labels).labels == (7, 8)
    assert find_dataset(path, labels).content != find_dataset(path).content


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "has 0 bytes, which are no whole records of 3,073 (CIFAR-10) or 3,074 (CIFAR-100)"),
        (bytes(3072), "has 3,072 bytes"),
        (bytes(2 * 3073 - 1), "it is cut short or another file"),
        (bytes([1]) + bytes(3072) + bytes([10]) + bytes(3072), "record 2 has the label 10, and "),
        (bytes([0, 100]) + bytes(3072), "record 1 has the label 100, and CIFAR-100 has 100"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, data: bytes, fault: str) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        find_dataset(path)
    assert fault in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_of_batches_says_which_file_to_give(tmp_path: Path) -> None:
    write_cifar(tmp_path / "data_batch_1.bin", [1], planes(0, 0, 0))
    write_cifar(tmp_path / "test_batch.bin", [1], planes(0, 0, 0))
    with pytest.raises(MansardError, match=r"give one of its files, such as .*test_batch\.bin"):
        find_dataset(tmp_path)


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test_batch.bin"
    write_cifar(path, [1], planes(0, 0, 0))
    chosen = samples_for(find_dataset(path), [IMAGE], parse_preprocessing("unit"))
    write_cifar(path, [2], planes(0, 0, 0))
    with pytest.raises(InputError, match="it was changed since"):
        write_samples(chosen, tmp_path)
