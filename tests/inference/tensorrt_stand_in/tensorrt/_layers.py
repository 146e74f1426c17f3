"""Which layers an engine gets: what is fused, what a DLA takes, where formats change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

# https://docs.nvidia.com/deeplearning/tensorrt/ "DLA Supported Layers"; the part that networks use.
_ON_DLA = {
    "Conv",
    "ConvTranspose",
    "Relu",
    "Sigmoid",
    "Tanh",
    "Clip",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "Add",
    "Mul",
    "Sub",
    "Concat",
    "BatchNormalization",
    "Gemm",
}
_FUSES = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
_FUSED_AFTER = {"BatchNormalization", "Relu", "Clip", "Sigmoid", "Add"}
_MYELIN = {"LayerNormalization", "Softmax", "Erf", "Pow", "Sqrt", "ReduceMean", "Sub", "Div"}
Layer = dict[str, Any]


def runs_on_dla(op_type: str) -> bool:
    """Whether a DLA has the operator."""
    return op_type in _ON_DLA


def make_layers(
    nodes: Sequence[tuple[str, Any]], *, on_dla: Collection[str], is_low: bool
) -> list[Layer]:
    """The layers of an engine of ``nodes``, each by its name; ``is_low``: not all is fp32.

    ``on_dla``: names of those that are to be on a DLA, where it has the operator.
    """
    on_dla = {name for name, node in nodes if name in on_dla and runs_on_dla(node.op_type)}
    readers = Counter(tensor for _, node in nodes for tensor in node.input)
    groups: list[list[tuple[str, Any]]] = []
    for named in nodes:
        if groups and _joins(groups[-1], named, readers, on_dla):
            groups[-1].append(named)
        else:
            groups.append([named])
    layers: list[Layer] = []
    for group in groups:
        layer = _layer(group, on_dla=group[0][0] in on_dla)
        changes = not layers if is_low else False
        if layers and layers[-1]["LayerType"] != layer["LayerType"]:
            changes |= "DLA" in {layers[-1]["LayerType"], layer["LayerType"]}
        if changes:
            layers.append(_reformat(layer))
        layers.append(layer)
    return layers


def _joins(
    group: Sequence[tuple[str, Any]],
    named: tuple[str, Any],
    readers: Counter[str],
    on_dla: Collection[str],
) -> bool:
    first, last, node = group[0][1], group[-1][1], named[1]
    if group[0][0] in on_dla or named[0] in on_dla:
        return group[0][0] in on_dla and named[0] in on_dla
    if first.op_type in _MYELIN:
        return node.op_type in _MYELIN
    follows = len(last.output) == 1 and readers[last.output[0]] == 1
    if not follows or last.output[0] not in node.input or first.op_type not in _FUSES:
        return False
    return node.op_type in _FUSED_AFTER


def _layer(group: Sequence[tuple[str, Any]], *, on_dla: bool) -> Layer:
    names = [name for name, _ in group]
    region = f"{{ForeignNode[{names[0]}...{names[-1]}]}}"
    if on_dla:
        name, kind, tactic = region, "DLA", ""
    elif group[0][1].op_type in _MYELIN and len(names) > 1:
        name, kind, tactic = region, "Myelin", ""
    else:
        name = " + ".join(names)
        kind = "CaskConvolution" if group[0][1].op_type == "Conv" else group[0][1].op_type
        tactic = f"stand_in_{group[0][1].op_type.lower()}"
    outputs = [{"Name": tensor, "Location": "Device"} for tensor in group[-1][1].output]
    return {
        "Name": name,
        "LayerType": kind,
        "Inputs": [{"Name": tensor, "Location": "Device"} for tensor in group[0][1].input],
        "Outputs": outputs,
        "ParameterType": kind,
        "TacticName": tactic,
        "TacticValue": "0x0000000000000001",
        "Metadata": "\x1e".join(f"[ONNX Layer: {each}]" for each in names),
        "n_nodes": len(names),
    }


def _reformat(before: Layer) -> Layer:
    return {
        "Name": f"Reformatting CopyNode for Input Tensor 0 to {before['Name']}",
        "LayerType": "Reformat",
        "Inputs": before["Inputs"][:1],
        "Outputs": before["Inputs"][:1],
        "ParameterType": "Reformat",
        "Origin": "REFORMAT",
        "TacticValue": "0x0000000000000000",
        "Metadata": "",
        "n_nodes": 0,
    }
