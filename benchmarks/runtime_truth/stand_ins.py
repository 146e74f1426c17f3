"""Kernels for nodes that ONNX Runtime did not run as they are written.

It has no kernel for some operators (HardSwish, for one) and runs the operators of their
definition instead, whose inner tensors no other runtime need have. As the file has it,
such a node reads its inputs and writes its outputs: their real shapes are those that its
neighbours saw. Nodes of the main graph alone, for they run exactly once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from onnx import NodeProto, helper

from mansard.core.formats.onnx import label_of
from mansard.inference.preparing.labelling import Labelled, bodies

from .profiling import Kernel, RealTensor, type_name


def find_stand_ins(
    labelled: Labelled,
    kernels: Sequence[Kernel],
    outside: Mapping[str, RealTensor],
    ran: Collection[int],
) -> dict[int, Kernel]:
    """A kernel, by label, for each node that is not in ``ran`` and whose tensors others saw.

    ``outside``: the tensors fed to the network and returned by it.
    """
    seen = {**_stored(labelled), **outside, **_of_neighbours(labelled, kernels)}
    found: dict[int, Kernel] = {}
    for node in labelled.model.graph.node:
        number = label_of(node.name)
        is_stored = node.op_type == "Constant" or any(True for _ in bodies(node))
        if (
            number is None
            or number in ran
            or is_stored
            or not all(name in seen for name in _names(node))
        ):
            continue
        inputs = tuple(seen[name] for name in node.input if name)
        outputs = tuple(seen[name] for name in node.output if name)
        found[number] = Kernel(number, node.op_type, inputs, outputs)
    return found


def _names(node: NodeProto) -> list[str]:
    return [name for name in (*node.input, *node.output) if name]


def _stored(labelled: Labelled) -> dict[str, RealTensor]:
    graph = labelled.model.graph
    literals = (
        (node.output[0], attribute.t)
        for node in graph.node
        for attribute in node.attribute
        if node.op_type == "Constant" and attribute.name == "value"
    )
    held = (*((stored.name, stored) for stored in graph.initializer), *literals)
    return {
        name: RealTensor(
            type_name(helper.tensor_dtype_to_np_dtype(tensor.data_type).name), tuple(tensor.dims)
        )
        for name, tensor in held
    }


def _of_neighbours(labelled: Labelled, kernels: Sequence[Kernel]) -> dict[str, RealTensor]:
    outermost = {label_of(node.name) for node in labelled.model.graph.node}
    seen: dict[str, RealTensor] = {}
    for kernel in kernels:
        if kernel.label is None or kernel.label not in outermost:
            continue
        node = labelled.nodes[kernel.label]
        for names, tensors in ((node.input, kernel.inputs), (node.output, kernel.outputs)):
            given = [name for name in names if name]
            if len(given) == len(tensors):
                seen.update(zip(given, tensors, strict=True))
    return seen
