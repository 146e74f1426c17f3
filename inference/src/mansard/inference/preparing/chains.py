"""Chains of tiny nodes: what they take is what an engine needs to call and to start nodes.

Each node handles one element and waits for the one before it. Two lengths tell the cost of a node
from that of a call: t(n) = call + n · node. Neg and Abs take turns, because no engine here makes
one node of them or drops one.
"""

from __future__ import annotations

from pathlib import Path

from mansard.core.records import CHAIN_LENGTHS, chain_name

_IR_VERSION, _OPSET = 8, 17  # that every version of ONNX Runtime since 1.14 reads


def write_chains(folder: Path) -> tuple[Path, ...]:
    """The files of the chains in ``folder``, the shorter one first; raises OSError."""
    from onnx import TensorProto, helper, save

    paths = []
    for length in CHAIN_LENGTHS:
        names = ["input", *(f"value{at}" for at in range(1, length)), "output"]
        nodes = [
            helper.make_node("Abs" if at % 2 else "Neg", [names[at]], [names[at + 1]])
            for at in range(length)
        ]
        ends = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
            for name in ("input", "output")
        ]
        graph = helper.make_graph(nodes, chain_name(length), ends[:1], ends[1:])
        opset = helper.make_opsetid("", _OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=_IR_VERSION)
        paths.append(folder / f"{chain_name(length)}.onnx")
        save(model, paths[-1])
    return tuple(paths)
