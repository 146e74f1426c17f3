"""GGUF files that are cut, broken or made to harm: one line each, in bounded time and memory."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from mansard.core.errors import ModelError, StorageError
from mansard.estimator.language.gguf import read_header
from mansard.estimator.language.reading import read_language_model
from mansard.estimator.scoring import is_language_model


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return tmp_path / "broken.gguf"


def _start(version: int = 3, n_tensors: int = 0, n_keys: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys)


def _text(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + content


_ARRAY_OF = _start(n_keys=1) + _text(b"key") + struct.pack("<I", 9)
_TENSOR = _start(n_tensors=1) + _text(b"name")

HOSTILE = {
    "empty": (b"", "the file is empty"),
    "another format": (b"PK\x03\x04" + bytes(64), "does not start with 'GGUF'"),
    "version 1": (_start(1), "of version 1; versions 2 and 3 are known"),
    "big endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "2^60 tensors": (_start(n_tensors=1 << 60), "1152921504606846976 tensors"),
    "2^60 keys": (_start(n_keys=1 << 60), "1152921504606846976 keys"),
    "a key of 2^63 bytes": (
        _start(n_keys=1) + struct.pack("<Q", 1 << 63),
        "a name has 9223372036854775808 bytes",
    ),
    "a text of 2^63 bytes": (
        _start(n_keys=1) + _text(b"key") + struct.pack("<IQ", 8, 1 << 63),
        "the file is cut",
    ),
    "an array of 2^60 texts": (
        _ARRAY_OF + struct.pack("<IQ", 8, 1 << 60),
        "key 'key': it says that it has 1152921504606846976 items in arrays",
    ),
    "arrays that are too much together": (
        _start(n_keys=2)
        + b"".join(
            key + struct.pack("<IIQ", 9, 0, 3 << 20) + bytes(3 << 20)
            for key in (_text(b"one"), _text(b"two"))
        ),
        "key 'two': it says that it has 6291456 items in arrays",
    ),
    "texts that go on beyond the end": (
        _ARRAY_OF + struct.pack("<IQ", 8, 1 << 20) + struct.pack("<Q", 1 << 63) + bytes(64),
        "the file is cut",
    ),
    "an array of arrays": (
        _ARRAY_OF + struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 9, 1) * 1000,
        "arrays of kind 9 are unknown",
    ),
    "a value of kind 99": (
        _start(n_keys=1) + _text(b"key") + struct.pack("<I", 99),
        "key 'key': values of kind 99 are unknown",
    ),
    "a key that is not text": (_start(n_keys=1) + _text(b"\xff\xfe"), "not UTF-8"),
    "a tensor of 2^31 dimensions": (
        _TENSOR + struct.pack("<I", 1 << 31),
        "tensor 'name': it has 2147483648 dimensions",
    ),
    "a tensor of type 31": (
        _TENSOR + struct.pack("<IQIQ", 1, 32, 31, 0),
        "tensor 'name': its type 31 is unknown",
    ),
    "half a block": (
        _TENSOR + struct.pack("<IQIQ", 1, 100, 12, 0),
        r"\[100\] is not whole blocks of 256",
    ),
    "a tensor of 2^126 numbers": (
        _TENSOR + struct.pack("<IQQIQ", 2, 1 << 63, 1 << 63, 0, 0),
        "is beyond any memory",
    ),
    "a tensor beyond the end": (
        _TENSOR + struct.pack("<IQIQ", 1, 32, 0, 1 << 60),
        "the file is cut: it has 60 bytes",
    ),
    "one name twice": (
        _start(n_tensors=2) + (_text(b"name") + struct.pack("<IQIQ", 1, 1, 0, 0)) * 2,
        "two tensors are called 'name'",
    ),
    "no architecture": (_start(), "general.architecture is missing"),
    "an image encoder": (
        _start(n_keys=1) + _text(b"general.architecture") + struct.pack("<I", 8) + _text(b"clip"),
        "an image encoder without its language model",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_header_is_one_line(case: str, broken: Path) -> None:
    content, expected = HOSTILE[case]
    broken.write_bytes(content)
    with pytest.raises(ModelError, match=expected) as caught:
        read_language_model(broken)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(broken: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        read_header(broken)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match=r"model\.gguf is not a regular file"):
        read_language_model(tmp_path / "model.gguf")
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(ModelError, match=r"config\.json is not a regular file"):
        read_language_model(tmp_path)
    os.mkfifo(tmp_path / "model")
    assert not is_language_model(tmp_path / "model")
