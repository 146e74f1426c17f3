"""The exporter's notes about itself, taken out of a file before it is handed on.

The newer exporter writes beside every node the Python lines that made it and the paths
of the machine they lie on: more bytes than the graph, and nobody else's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

_PREFIX = "pkg.torch."  # pkg.torch.onnx.stack_trace, pkg.torch.export.…; "namespace" stays


def without_provenance(model: onnx.ModelProto) -> None:
    """Remove PyTorch's notes from every part of ``model``, in place."""
    for part in _parts(model):
        kept = [one for one in part.metadata_props if not one.key.startswith(_PREFIX)]
        if len(kept) < len(part.metadata_props):
            del part.metadata_props[:]
            part.metadata_props.extend(kept)


def _parts(model: onnx.ModelProto) -> Iterator[Any]:
    yield model
    for function in model.functions:
        yield function
        yield from function.value_info
        yield from _nodes(function.node)
    yield from _graph(model.graph)


def _graph(graph: onnx.GraphProto) -> Iterator[Any]:
    yield graph
    for values in (graph.input, graph.output, graph.value_info, graph.initializer):
        yield from values
    yield from _nodes(graph.node)


def _nodes(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graph(attribute.g)
            for graph in attribute.graphs:
                yield from _graph(graph)
