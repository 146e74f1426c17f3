"""Our reader and the onnx package's parser yield the same models, also of damaged files."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import onnx
import pytest
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

import mansard.estimator
from mansard.core.errors import ModelError
from mansard.estimator.reading import read_model
from tests.estimator.node_cases import node_models
from tests.estimator.reader_oracle import REFUSALS, oracle, plain

DATA = Path(onnx.__file__).parent / "backend/test/data"
ZOO = Path(mansard.estimator.__file__).parent / "zoo/models"
FILES = sorted([*ZOO.glob("*.onnx"), *DATA.rglob("*.onnx")])


@pytest.fixture(scope="module")
def node_files() -> dict[str, bytes]:
    """The files of the models of a single operator that the onnx package makes, by name."""
    return {name: model.SerializeToString() for name, model in node_models().items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_same_as_onnx_of_files(path: Path) -> None:
    data = path.read_bytes()
    assert plain(read_model(data)) == plain(oracle(data))


def test_the_same_as_onnx_of_all_node_tests(node_files: dict[str, bytes]) -> None:
    assert len(node_files) > 1500
    for name, data in node_files.items():
        assert plain(read_model(data)) == plain(oracle(data)), name


def test_the_same_as_onnx_of_damaged_node_tests(node_files: dict[str, bytes]) -> None:
    generator = random.Random(20240607)
    models = [data for data in node_files.values() if len(data) < 2000]
    both = 0
    for _ in range(8000):
        both += is_same(damaged(generator, generator.choice(models)))
    assert both > 500  # else the damage is too great to show anything


@settings(max_examples=300)
@given(st.data())
def test_the_same_as_onnx_of_damaged_files(data: st.DataObject) -> None:
    content = bytearray((DATA / "light/light_bvlc_alexnet.onnx").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    is_same(bytes(content))


def damaged(generator: random.Random, data: bytes) -> bytes:
    """One to three bytes changed, some doubled, or some taken out."""
    place = generator.randrange(len(data))
    length = generator.randrange(1, 40)
    match generator.randrange(8):
        case 0:
            return data[:place] + data[place : place + length] + data[place:]
        case 1:
            return data[:place] + data[place + length :]
    changed = bytearray(data)
    for _ in range(generator.randint(1, 3)):
        changed[generator.randrange(len(data))] = generator.randrange(256)
    return bytes(changed)


def is_same(data: bytes) -> bool:
    """Whether both read a model; asserts that they agree on it, or on there being none."""
    try:
        theirs = oracle(data)
    except DecodeError:
        # We skip messages that we do not need, so damage within them does not matter.
        with contextlib.suppress(ModelError):
            read_model(data)
        return False
    except REFUSALS:
        with pytest.raises(ModelError):
            read_model(data)
        return False
    if onnx.ModelProto.FromString(data).functions:
        return False
    assert plain(read_model(data)) == plain(theirs)
    return True
