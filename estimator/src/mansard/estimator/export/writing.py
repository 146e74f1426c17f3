"""From what an exporter left in a folder to one file at its place, whole or not at all.

The exporter's notes about itself are taken out, and weights are replaced by their shapes
where these are not wanted (docs/decisions/0003-weights-as-constant-of-shape.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOENT
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mansard.core.errors import UsageError
from mansard.core.storage.files import move_over, storage_error, write_atomic
from mansard.core.storage.leftovers import temporary_folder

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


# Weights as ``ConstantOfShape``: a graph of a few kilobytes that runs and scores the same.
#
# Why this form and no other: docs/decisions/0003-weights-as-constant-of-shape.md.


_LEAST_ELEMENTS = 16  # fewer are a scale or an epsilon, which results may hang on
_INT64 = 7  # onnx.TensorProto.INT64
_FLOATING = frozenset({1, 10, 11})  # FLOAT, FLOAT16, DOUBLE: what every version of it can fill


def without_weights(model: onnx.ModelProto) -> int:
    """Replace the floating initialisers of ``model`` in place; returns how many.

    Their values are neither read nor kept, so external data may be absent. A weight of
    several axes is filled with one over the inputs of an output, which keeps signals in
    range; any other with 1.
    """
    graph = model.graph
    weights = [tensor for tensor in graph.initializer if _is_weight(tensor)]
    kept = [tensor for tensor in graph.initializer if not _is_weight(tensor)]
    names = {tensor.name for tensor in weights}
    taken = {tensor.name for tensor in graph.initializer}
    taken.update(name for node in graph.node for name in (*node.input, *node.output))
    shapes: dict[tuple[int, ...], onnx.TensorProto] = {}
    for tensor in weights:
        lengths = tuple(tensor.dims)
        if lengths not in shapes:
            shapes[lengths] = _shape(lengths, taken)
    nodes = [_fill(tensor, shapes[tuple(tensor.dims)]) for tensor in weights]
    nodes += graph.node
    inputs = [one for one in graph.input if one.name not in names]  # IR version 3 lists them there
    del graph.initializer[:], graph.node[:], graph.input[:]
    graph.initializer.extend([*kept, *shapes.values()])
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    return len(weights)


def _is_weight(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type in _FLOATING and prod(tensor.dims) >= _LEAST_ELEMENTS


def _shape(lengths: tuple[int, ...], taken: set[str]) -> onnx.TensorProto:
    """A constant that holds ``lengths``, under a name that is free."""
    from onnx import helper

    name = "shape_" + "x".join(map(str, lengths))
    while name in taken:
        name += "_"
    taken.add(name)
    return helper.make_tensor(name, _INT64, [len(lengths)], lengths)


def _fill(tensor: onnx.TensorProto, shape: onnx.TensorProto) -> onnx.NodeProto:
    from onnx import helper

    value = 1 / prod(tensor.dims[1:]) if len(tensor.dims) > 1 else 1.0
    fill = helper.make_tensor("value", tensor.data_type, [1], [value])
    return helper.make_node(
        "ConstantOfShape", [shape.name], [tensor.name], name=f"{tensor.name}_fill", value=fill
    )


@contextmanager
def workspace(output: Path) -> Iterator[Path]:
    """An empty folder on the disk of ``output``, removed afterwards; raises UsageError
    or StorageError before anything is built."""
    if output.exists() and not output.is_file():
        what = "is a folder" if output.is_dir() else "is not a regular file"
        raise UsageError(what, where=str(output), fix="name a file: -o model.onnx")
    if not output.parent.is_dir():
        raise storage_error(FileNotFoundError(ENOENT, os.strerror(ENOENT)), output)
    with temporary_folder(output.parent, output.name) as folder:
        yield folder


def publish(
    model: onnx.ModelProto, folder: Path, output: Path, *, with_weights: bool
) -> tuple[Path, ...]:
    """Put ``model``, which was traced into ``folder``, at ``output``; returns the paths written.

    Weights that lie in the folder (more than 1.9 GB of them) go into one file, ``output``
    + ``.data``, which is in place before the model that names it. Raises StorageError.
    """
    import onnx

    without_provenance(model)
    if not with_weights:
        without_weights(model)
        onnx.load_external_data_for_model(model, str(folder))  # what was kept: a few numbers
    beside = sorted(path for path in folder.iterdir() if path.name != output.name)
    written: tuple[Path, ...] = (output,)
    if with_weights and beside:
        written = (output, _publish_data(model, folder, beside, output))
    write_atomic(output, model.SerializeToString(deterministic=True))
    return written


def _publish_data(model: onnx.ModelProto, folder: Path, beside: list[Path], output: Path) -> Path:
    import onnx

    name = f"{output.name}.data"
    if [path.name for path in beside] != [name]:  # the older exporter writes a file a weight
        onnx.load_external_data_for_model(model, str(folder))
        onnx.external_data_helper.convert_model_to_external_data(model, location=name)
        onnx.external_data_helper.write_external_data_tensors(model, str(folder))
    data, place = folder / name, output.parent / name
    move_over(data, place)
    return place
