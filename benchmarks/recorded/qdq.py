"""Networks with quantisers in them, made of float ones as the quantisers of others make them.

``quantize_modules`` puts QuantizeLinear and DequantizeLinear where NVIDIA's toolkits for PyTorch
do: in front of the activations and of the weights of each convolution and product, and on demand
in front of residuals and of average pools. ``quantize_tensors`` calls ONNX Runtime's own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_STEP = 0.05  # of all activations; equal for equal tensors, as calibration gives it


def quantize_modules(data: bytes, residuals: bool = False, pools: bool = False) -> bytes:
    """``data`` as training with quantisers exports it: int8, one zero point, no sharing.

    Each reader has a quantiser of its own; those of one tensor have equal scales.
    ``residuals``: the tensor that an Add passes around its block is quantised too;
    ``pools``: the one that a global average pool reads.
    """
    model = onnx.load_from_string(data)
    graph = model.graph
    constants = {output for node in graph.node if not node.input for output in node.output}
    constants.update(each.name for each in graph.initializer)
    for node in graph.node:  # weights that are computed from stored shapes
        if node.op_type == "ConstantOfShape" and node.input[0] in constants:
            constants.update(node.output)
    depths = _depths(graph.node)
    inserter = _Inserter(graph)
    for node in list(graph.node):
        if node.op_type in _PRODUCTS:
            inserter.quantize(node, 0)
            inserter.quantize(node, 1, axis=0 if node.op_type == "Conv" else None)
        elif residuals and node.op_type == "Add" and not constants.intersection(node.input):
            shorter = min((0, 1), key=lambda index: depths[node.input[index]])
            inserter.quantize(node, shorter)
        elif pools and node.op_type == "GlobalAveragePool":
            inserter.quantize(node, 0)
        inserter.nodes.append(node)
    del graph.node[:]
    graph.node.extend(inserter.nodes)
    result: bytes = model.SerializeToString()
    return result


class _Inserter:
    """The new order of a graph's nodes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self.nodes: list[onnx.NodeProto] = []
        shapes = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        self._widths = {each.name: int(each.dims[0]) for each in graph.initializer if each.dims}
        for node in graph.node:
            if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
                self._widths[node.output[0]] = int(shapes[node.input[0]][0])

    def quantize(self, node: onnx.NodeProto, index: int, axis: int | None = None) -> None:
        """Put a quantiser and its inverse in front of one input of ``node``."""
        source = node.input[index]
        # one scale for each output channel, or one for all
        scales = [_STEP] * self._widths[source] if axis is not None else _STEP
        name = f"{node.name or node.output[0]}.input{index}"
        scale, zero = f"{name}.scale", f"{name}.zero"
        stored = np.asarray(scales, dtype=np.float32)
        self._graph.initializer.append(numpy_helper.from_array(stored, scale))
        self._graph.initializer.append(numpy_helper.from_array(stored.astype(np.int8), zero))
        for op_type, given, made in (
            ("QuantizeLinear", source, f"{name}.int8"),
            ("DequantizeLinear", f"{name}.int8", f"{name}.float"),
        ):
            made_by = onnx.helper.make_node(op_type, [given, scale, zero], [made], made)
            if axis is not None:
                made_by.attribute.append(onnx.helper.make_attribute("axis", axis))
            self.nodes.append(made_by)
        node.input[index] = f"{name}.float"


def _depths(nodes: Sequence[onnx.NodeProto]) -> dict[str, int]:
    """How many convolutions are behind each tensor, along the longest path."""
    depths: dict[str, int] = {}
    for node in nodes:
        depth = max((depths.get(name, 0) for name in node.input), default=0)
        for name in node.output:
            depths[name] = depth + (node.op_type == "Conv")
    return depths


def quantize_tensors(model: onnx.ModelProto, op_types: Sequence[str]) -> bytes:
    """``model``, with weights and one input, by ONNX Runtime's static quantiser (QDQ, int8).

    With the options that its example for TensorRT has: inputs of ``op_types`` are quantised,
    each by a pair of its own, and no outputs. Calibrated with two random inputs: the scales
    do not matter here, only where they stand.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    given = model.graph.input[0]
    shape = [each.dim_value or 1 for each in given.type.tensor_type.shape.dim]
    random = np.random.default_rng(0)

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        left = 2

        def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
            self.left -= 1
            if self.left < 0:
                return None
            return {given.name: random.standard_normal(shape, dtype=np.float32)}

    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("float.onnx", "folded.onnx", "int8.onnx")]
        onnx.save(model, paths[0])
        quant_pre_process(paths[0], paths[1], skip_symbolic_shape=True)
        quantization.quantize_static(
            paths[1],
            paths[2],
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=list(op_types),
            extra_options={
                "ActivationSymmetric": True,
                "WeightSymmetric": True,
                "OpTypesToExcludeOutputQuantization": list(op_types),
                "AddQDQPairToWeight": True,
                "DedicatedQDQPair": True,
            },
        )
        return Path(paths[2]).read_bytes()
