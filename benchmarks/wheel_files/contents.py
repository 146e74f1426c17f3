"""What is in a model that makes static counting hard."""

from __future__ import annotations

from onnx import GraphProto, ModelProto

from mansard.inference.preparing.labelling import bodies

WANTED = (
    *("If", "If in If", "Loop", "Scan", "DFT", "STFT", "LSTM", "GRU", "ConvInteger"),
    *("MatMulInteger", "DynamicQuantizeLSTM", "DequantizeLinear", "TreeEnsembleClassifier"),
    *("Constant as weight", "ConstantOfShape as weight", "external weights"),
)
_HEAVY = {"Conv": 1, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "GRU": 1, "LSTM": 1, "RNN": 1}
_LITERALS = ("Constant", "ConstantOfShape")


def kinds(model: ModelProto) -> tuple[str, ...]:
    """Which of ``WANTED`` the model has."""
    found: set[str] = set()
    _collect(model.graph, (), {}, found)
    if any(stored.external_data for stored in model.graph.initializer):
        found.add("external weights")
    return tuple(kind for kind in WANTED if kind in found)


def _collect(
    graph: GraphProto, holders: tuple[str, ...], outer: dict[str, str], found: set[str]
) -> None:
    writers = {**outer, **{name: node.op_type for node in graph.node for name in node.output}}
    for node in graph.node:
        found.add(node.op_type)
        if node.op_type == "If" and "If" in holders:
            found.add("If in If")
        place = _HEAVY.get(node.op_type)
        if place is not None and writers.get(node.input[place]) in _LITERALS:
            found.add(f"{writers[node.input[place]]} as weight")
        for body in bodies(node):
            _collect(body, (*holders, node.op_type), writers, found)
