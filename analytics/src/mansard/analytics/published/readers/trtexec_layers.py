"""``trtexec --exportLayerInfo``, and the engine inspector: which layers an engine has.

They have no times. Their types, formats and kernels go with the layers of a profile of the same
network by the layers' names.
"""

from __future__ import annotations

import re

import msgspec

from mansard.analytics.published.cells import LayerRow
from mansard.analytics.published.readers.reader import Reader, Reading, ToolFile, parse_json
from mansard.analytics.published.readers.trtexec_profile import layers_row

_KEYS = re.compile(r'^\s*\{\s*"Layers"\s*:')
# What TensorRT calls the format of a tensor; the first that stands in it counts.
_FORMATS = (
    (re.compile(r"\bBF16|BFloat16", re.I), "bf16"),
    (re.compile(r"\bFP16|\bHalf", re.I), "fp16"),
    (re.compile(r"\bFP8|E4M3", re.I), "fp8"),
    (re.compile(r"\bFP4|E2M1", re.I), "fp4"),
    (re.compile(r"\bInt8", re.I), "int8"),
    (re.compile(r"\bInt4\b", re.I), "int4"),
    (re.compile(r"\bFP32|\bFloat", re.I), "fp32"),
)


class _Tensor(msgspec.Struct):
    format: str = msgspec.field(default="", name="Format/Datatype")


class _Layer(msgspec.Struct, rename="pascal"):
    name: str
    layer_type: str | None = None
    outputs: list[_Tensor] = []
    origin: str = ""
    metadata: str = ""
    tactic_name: str | None = None
    tactic_value: str | None = None


class _Engine(msgspec.Struct, rename="pascal"):
    layers: list[str | _Layer]  # names alone without --profilingVerbosity=detailed


def _read(source: ToolFile) -> Reading:
    engine = parse_json(source, _Engine, "trtexec --exportLayerInfo")
    named = sum(isinstance(layer, str) for layer in engine.layers)
    method = "TensorRT's engine inspector: layers without times"
    row = layers_row(source, [_layer(layer) for layer in engine.layers], method)
    note = (
        "it has names alone: --profilingVerbosity=detailed also exports types, formats and kernels"
    )
    return Reading([row], [note] if named else [])


def _layer(layer: str | _Layer) -> LayerRow:
    if isinstance(layer, str):
        return LayerRow(name=layer)
    return LayerRow(
        name=layer.name,
        metadata=layer.metadata,
        # A quantiser is a reformat by its type and a node of the network by its origin.
        is_copy=layer.layer_type == "Reformat" and layer.origin != "QDQ",
        op_type=layer.layer_type,
        precision=precision_of(layer.outputs[0].format) if layer.outputs else None,
        tactic=layer.tactic_name or layer.tactic_value,
    )


def precision_of(text: str) -> str | None:
    """The precision in TensorRT's words for a format; None where they have none."""
    return next((name for pattern, name in _FORMATS if pattern.search(text)), None)


TRTEXEC_LAYERS = Reader(
    "trtexec --exportLayerInfo", lambda head: _KEYS.match(head) is not None, _read
)
