"""The files that are compared on, with all dimensions fixed: most peers know no others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

SIZES = {"batch": 1, "batch_size": 1, "past_sequence_length": 128}
OTHERS = 128  # tokens or time steps


def default_models() -> list[Path]:
    """The light models inside the onnx package, and the zoo's networks."""
    import onnx

    import mansard.estimator

    light = Path(onnx.__file__).parent / "backend/test/data/light"
    zoo = Path(mansard.estimator.__file__).parent / "zoo/models"
    return sorted(light.glob("light_*.onnx")) + sorted(zoo.glob("*.onnx"))


def fixed_copies(paths: Iterable[Path], folder: Path) -> list[Path]:
    """Each model with numbers for all dimensions of its inputs, written to ``folder``."""
    return [_fixed_copy(path, folder) for path in paths]


def _fixed_copy(path: Path, folder: Path) -> Path:
    import onnx

    model = onnx.load(path, load_external_data=False)
    changed = False
    for value in model.graph.input:
        for size in value.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                changed = True
                size.dim_value = _size(size.dim_param)
    if not changed:
        return path
    # What was inferred with names no longer holds.
    del model.graph.value_info[:]
    target = folder / path.name
    onnx.save(model, target)
    return target


def _size(name: str) -> int:
    if "+" in name:  # an attention mask over cached and new tokens
        return sum(_size(part.strip()) for part in name.split("+"))
    return int(name) if name.isdigit() else SIZES.get(name, OTHERS)


def chain(n_nodes: int) -> bytes:
    """A network of ``n_nodes`` like an exported transformer's, with shape arithmetic."""
    from onnx import TensorProto, helper

    nodes: list[onnx.NodeProto] = []
    stored: list[onnx.TensorProto] = []
    for block in range(n_nodes // 10):
        nodes += _block(block)
        values = bytes(64 * 64 * 4)
        stored.append(
            helper.make_tensor(f"w{block}", TensorProto.FLOAT, [64, 64], values, raw=True)
        )
    given = helper.make_tensor_value_info("t0", TensorProto.FLOAT, ["batch", "sequence", 64])
    last = helper.make_tensor_value_info(f"t{n_nodes // 10}", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "chain", [given], [last], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    data: bytes = model.SerializeToString()
    return data


def _block(i: int) -> list[onnx.NodeProto]:
    from onnx import TensorProto
    from onnx.helper import make_node, make_tensor

    one = make_tensor(f"one{i}", TensorProto.INT64, [1], [0])
    rest = make_tensor(f"rest{i}", TensorProto.INT64, [2], [-1, 64])
    return [
        make_node("Shape", [f"t{i}"], [f"s{i}"], f"/block.{i}/Shape"),
        make_node("Constant", [], [f"c{i}"], f"/block.{i}/Constant", value=one),
        make_node("Gather", [f"s{i}", f"c{i}"], [f"g{i}"], f"/block.{i}/Gather", axis=0),
        make_node("Constant", [], [f"r{i}"], f"/block.{i}/Constant_1", value=rest),
        make_node("Concat", [f"g{i}", f"r{i}"], [f"k{i}"], f"/block.{i}/Concat", axis=0),
        make_node("MatMul", [f"t{i}", f"w{i}"], [f"m{i}"], f"/block.{i}/MatMul"),
        make_node("Reshape", [f"m{i}", f"k{i}"], [f"v{i}"], f"/block.{i}/Reshape"),
        make_node("Softmax", [f"v{i}"], [f"p{i}"], f"/block.{i}/Softmax", axis=-1),
        make_node("Mul", [f"p{i}", f"v{i}"], [f"u{i}"], f"/block.{i}/Mul"),
        make_node("Add", [f"u{i}", f"t{i}"], [f"t{i + 1}"], f"/block.{i}/Add"),
    ]
