"""The kernels that ONNX Runtime ran, with the shapes they really had.

Optimisation is off, so that no two nodes become one; prepacking is off, or else packed
weights vanish from the inputs that the profiler shows. Two changes are made even so: a
DequantizeLinear is copied for each of its readers, which a setting turns off, and chains
of Cast are shortened, unless somebody outside asks for what they write.
https://onnxruntime.ai/docs/performance/tune-performance/profiling-tools.html
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto

from mansard.core.formats.onnx import label_of

Feeds = Mapping[str, npt.NDArray[Any]]
_SUFFIX = "_kernel_time"

# Widths as ONNX Runtime's names of types have them; strings have no width of their own.
_BITS = {
    "float": 32,
    "double": 64,
    "float16": 16,
    "bfloat16": 16,
    "bool": 8,
    "string": 0,
    "Int4x2": 4,  # shapes count single elements
    "UInt4x2": 4,
    **{f"{sign}int{bits}": bits for sign in ("", "u") for bits in (2, 4, 8, 16, 32, 64)},
}


@dataclass(frozen=True)
class RealTensor:
    """One tensor as a kernel saw it."""

    type_name: str
    shape: tuple[int, ...]

    @property
    def n_elements(self) -> int:
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        return (self.n_elements * _BITS[self.type_name] + 7) // 8


@dataclass(frozen=True)
class Kernel:
    """One run of one kernel; ``label`` is None for nodes that ONNX Runtime put in itself."""

    label: int | None
    op_type: str
    inputs: tuple[RealTensor, ...]  # those that are given and are tensors
    outputs: tuple[RealTensor, ...]


@dataclass(frozen=True)
class Run:
    """The kernels in the order in which they ended, and what came out by name."""

    kernels: tuple[Kernel, ...]
    results: Mapping[str, RealTensor]


def type_name(numpy_name: str) -> str:
    """ONNX Runtime's name of a type that NumPy calls so."""
    return {"float32": "float", "float64": "double"}.get(numpy_name, numpy_name)


def real_tensors(arrays: Mapping[str, object]) -> dict[str, RealTensor]:
    """Those of ``arrays`` that are tensors, as a kernel would see them."""
    return {
        name: RealTensor(type_name(array.dtype.name), array.shape)
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and type_name(array.dtype.name) in _BITS
    }


def run(model: ModelProto, feeds: Feeds) -> Run:
    """Run ``model`` once.

    Whatever ONNX Runtime raises goes through: such a model has no truth.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    options.enable_profiling = True
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = onnxruntime.InferenceSession(
            _with_casts_kept(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        results = dict(zip(names, session.run(names, dict(feeds)), strict=True))
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    kernels = tuple(
        _kernel(event)
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX)
    )
    return Run(kernels, real_tensors(results))


def _with_casts_kept(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    written = {value.name for value in copy.graph.output}
    for node in copy.graph.node:
        if node.op_type == "Cast" and node.output[0] not in written:
            copy.graph.output.add(name=node.output[0])
    return copy


def _kernel(event: Mapping[str, Any]) -> Kernel:
    details = event["args"]
    return Kernel(
        label_of(event["name"]),
        details["op_name"],
        _tensors(details["input_type_shape"]),
        _tensors(details["output_type_shape"]),
    )


def _tensors(listed: list[dict[str, list[int]]]) -> tuple[RealTensor, ...]:
    return tuple(RealTensor(name, tuple(shape)) for one in listed for name, shape in one.items())
