"""``trtexec --exportLayerInfo``, and the engine inspector: which layers an engine has.

They have no times. Their types, formats and kernels go with the layers of a profile of the same
network by the layers' names.
"""

from __future__ import annotations

import re

from mansard.analytics.data.published.cells import LayerRow
from mansard.analytics.data.published.readers.reader import Reader, Reading, ToolFile, parse_json
from mansard.analytics.data.published.readers.trtexec_profile import layers_row
from mansard.core.tensorrt_files import ExportedEngine, ExportedLayer, precision_of

_KEYS = re.compile(r'^\s*\{\s*"Layers"\s*:')


def _read(source: ToolFile) -> Reading:
    engine = parse_json(source, ExportedEngine, "trtexec --exportLayerInfo")
    named = sum(isinstance(layer, str) for layer in engine.layers)
    method = "TensorRT's engine inspector: layers without times"
    row = layers_row(source, [_layer(layer) for layer in engine.layers], method)
    note = (
        "it has names alone: --profilingVerbosity=detailed also exports types, formats and kernels"
    )
    return Reading([row], [note] if named else [])


def _layer(layer: str | ExportedLayer) -> LayerRow:
    if isinstance(layer, str):
        return LayerRow(name=layer)
    return LayerRow(
        name=layer.name,
        metadata=layer.metadata,
        is_copy=layer.is_copy,
        op_type=layer.layer_type,
        precision=precision_of(layer.outputs[0].format) if layer.outputs else None,
        tactic=layer.tactic_name or layer.tactic_value,
    )


TRTEXEC_LAYERS = Reader(
    "trtexec --exportLayerInfo", lambda head: _KEYS.match(head) is not None, _read
)
