"""Small networks with graphs inside nodes: shapes inferred by us, run by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import parser

from mansard.estimator.model import Given
from mansard.estimator.reading import read_model
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.context import MAX_INNER_NODES
from mansard.estimator.shape_inference.inference import InferredNetwork, infer_shapes
from mansard.estimator.tensors import Node, Tensor

Array = npt.NDArray[np.generic]


def parsed(graph: str, opset: int = 17) -> onnx.ModelProto:
    """A model from its graph in ONNX's text form."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {graph}')


def stored(text: str, **shapes: tuple[int, ...]) -> str:
    """``text`` with elements for its stored tensors, which the text form asks for."""
    for name, shape in shapes.items():
        declared = f"float[{','.join(map(str, shape))}] {name}"
        zeros = ",".join("0" * int(np.prod(shape)))
        text = text.replace(declared, f"{declared} = {{{zeros}}}")
    return text


def inferred(
    proto: onnx.ModelProto, given: Given | None = None, max_inner_nodes: int = MAX_INNER_NODES
) -> InferredNetwork:
    """The network with all its shapes."""
    model = read_model(proto.SerializeToString())
    binding = bind(model, given or Given())
    return infer_shapes(model, binding, max_inner_nodes=max_inner_nodes)


def run(proto: onnx.ModelProto, **feeds: object) -> dict[str, object]:
    """The outputs that ONNX Runtime computes: arrays, or lists of arrays."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def look(value: object) -> object:
    """Shape and type of what ONNX Runtime gives; of lists, those of the elements."""
    if isinstance(value, list):
        return [look(item) for item in value]
    array = np.asarray(value)
    return array.shape, array.dtype.name


def our_look(tensor: Tensor) -> object:
    """The same of a tensor of ours."""
    assert tensor.unknown is None, tensor.unknown
    if tensor.items is not None:
        return [our_look(item) for item in tensor.items]
    return tensor.shape, tensor.dtype.name


def check(
    proto: onnx.ModelProto, feeds: Mapping[str, Array], given: Given | None = None
) -> InferredNetwork:
    """Place the network and compare every output with the real one; known values too."""
    network = inferred(proto, given)
    for name, value in run(proto, **feeds).items():
        tensor = network.tensors[name]
        assert our_look(tensor) == look(value), name
        if tensor.value is not None:
            np.testing.assert_array_equal(tensor.value.array, np.asarray(value), err_msg=name)
    return network


def ran(nodes: Sequence[Node], runs: int = 1) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Each node that runs, those inside others too: name, shape of its output, how often."""
    for node in nodes:
        yield node.name, node.outputs[0].shape, runs
        for body in node.bodies:
            for each in body.passes if body.is_taken else ():
                yield from ran(each.nodes, runs * each.times)


def times(network: InferredNetwork, name: str) -> list[tuple[tuple[int, ...], int]]:
    """Shapes of the output of node ``name``, and how often it runs with each, in order."""
    return [(shape, runs) for found, shape, runs in ran(network.nodes) if found == name]


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return np.ones(shape, np.float32)
