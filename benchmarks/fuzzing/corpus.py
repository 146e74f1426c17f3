"""The models that are damaged: the zoo, and the onnx package's models of single operators."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import onnx
from onnx import numpy_helper

import mansard.estimator

_SMALL = 64  # elements: integers up to here are written into the file, as exporters do
_SIZES = {"batch": 1}  # every other named dimension becomes this
_OTHER = 8
# The larger a network, the longer a mutant takes: these have up to 250 nodes.
_ZOO = ("alexnet", "lstm", "squeezenet1_1", "vgg16", "resnet18", "resnet50", "unet", "mobilenet_v2")


class Original(msgspec.Struct, frozen=True):
    """A model before it is damaged."""

    name: str
    data: bytes


def make_corpus() -> list[Original]:
    """All originals, always in the same order."""
    from onnx.backend.test.loader import load_model_tests

    zoo = Path(mansard.estimator.__file__).parent / "zoo/models"
    networks = [Original(name, _fixed((zoo / f"{name}.onnx").read_bytes())) for name in _ZOO]
    light = Path(onnx.__file__).parent / "backend/test/data/light/light_bvlc_alexnet.onnx"
    networks.append(Original("light_alexnet", light.read_bytes()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests divide by zero on purpose
        cases = load_model_tests(kind="node")
    single = []
    for case in cases:
        if case.model is not None:
            inputs: Iterable[object] = case.data_sets[0][0] if case.data_sets else ()
            single.append(Original(case.name, _with_values(case.model, inputs)))
    # Networks stand several times, so that every tenth mutant or so is one of them.
    return single + networks * (len(single) // (9 * len(networks)))


def write_corpus(path: Path) -> None:
    """Make the corpus once for all processes."""
    path.write_bytes(msgspec.msgpack.encode(make_corpus()))


def read_corpus(path: Path) -> list[Original]:
    """What ``write_corpus`` wrote."""
    return msgspec.msgpack.decode(path.read_bytes(), type=list[Original])


def _fixed(data: bytes) -> bytes:
    model = onnx.ModelProto.FromString(data)
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.HasField("dim_param"):
                size.dim_value = _SIZES.get(size.dim_param, _OTHER)
    fixed: bytes = model.SerializeToString()
    return fixed


def _with_values(model: onnx.ModelProto, inputs: Iterable[object]) -> bytes:
    """The model with its small integer inputs stored: shapes depend on them."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    given = [value for value in model.graph.input if value.name]
    for value, array in zip(given, inputs, strict=False):
        if isinstance(array, np.ndarray) and array.dtype.kind in "ib" and array.size <= _SMALL:
            changed.graph.input.remove(value)
            changed.graph.initializer.append(numpy_helper.from_array(array, value.name))
    data: bytes = changed.SerializeToString()
    return data
