"""One export from beginning to end: load, trace, check, write.

The ways to trace a network are tried one after another until one gives a file that is right.
What the exporter left in a folder becomes one file at its place, whole or not at all: without the
exporter's notes about itself, and with the shapes of weights in their place where these are not
wanted (docs/decisions/0003-weights-as-constant-of-shape.md).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENOENT
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.core.storage.files import move_over, storage_error, write_atomic
from mansard.core.storage.leftovers import temporary_folder
from mansard.estimator.export.checking import (
    RUNTIME,
    ExportCheck,
    compare,
    run_onnxruntime,
    run_pytorch,
)
from mansard.estimator.export.network import Input, Network, example_tensors, need
from mansard.estimator.export.request import DynamicAxis, ExportRequest
from mansard.estimator.export.sources import load_network
from mansard.estimator.export.tracing import plan_axes, trace, traced_sizes, with_sizes

if TYPE_CHECKING:
    import onnx


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators; 0 where the file names none."""
    return max(
        (opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")),
        default=0,
    )


def input_shapes(model: onnx.ModelProto) -> dict[str, tuple[int | str, ...]]:
    """The shape of each input that is not a weight: sizes, symbols, or ``?``."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: tuple(_size(axis) for axis in value.type.tensor_type.shape.dim)
        for value in model.graph.input
        if value.name not in stored
    }


def _size(axis: onnx.TensorShapeProto.Dimension) -> int | str:
    if axis.HasField("dim_value"):
        return int(axis.dim_value)
    return axis.dim_param or "?"


def fixed_axes(model: onnx.ModelProto, axes: Sequence[DynamicAxis]) -> list[str]:
    """The ``axes`` that the exporter made constant, as messages write them."""
    shapes = input_shapes(model)
    return [
        f"{axis.name}:{axis.axis}={shapes[axis.name][axis.axis]}"
        for axis in axes
        if axis.name in shapes and isinstance(shapes[axis.name][axis.axis], int)
    ]


Chosen: TypeAlias = Literal["dynamo", "torchscript"]


class Attempt(msgspec.Struct, frozen=True):
    """One way to trace a network."""

    exporter: Chosen
    axes: tuple[DynamicAxis, ...]
    name: str


class Traced(msgspec.Struct, frozen=True):
    """A graph, without weights that lie beside it, and the checks that it passed."""

    model: onnx.ModelProto
    checks: tuple[ExportCheck, ...]
    notes: tuple[str, ...]


class UnfitError(Exception):
    """An attempt failed, but another may succeed."""


def plan_attempts(inputs: Sequence[Input], request: ExportRequest) -> tuple[Attempt, ...]:
    """The attempts, in order: the newer exporter, then the older one.

    Where some symbols are only our default, both once more without those. Raises
    UsageError.
    """
    wanted = plan_axes(inputs, request.dynamic, is_static=True)
    exporters: tuple[Chosen, ...] = (
        ("dynamo", "torchscript") if request.exporter == "auto" else (request.exporter,)
    )
    fixed = tuple(
        Attempt(exporter, wanted, f"{exporter} with fixed sizes") for exporter in exporters
    )
    axes = plan_axes(inputs, request.dynamic, is_static=request.is_static)
    if set(axes) == set(wanted):
        return fixed
    return (*(Attempt(exporter, axes, exporter) for exporter in exporters), *fixed)


def trace_checked(network: Network, attempt: Attempt, request: ExportRequest, path: Path) -> Traced:
    """Trace into ``path`` and compare with PyTorch, where there are symbols at two sizes.

    Raises UnfitError where another attempt may do better, ModelError where the file gives
    other results than the network at the very sizes that were traced.
    """
    import onnx

    sizes = traced_sizes(network.inputs, attempt.axes)
    examples = _examples(network, attempt, sizes)
    checks: tuple[ExportCheck, ...] = ()
    try:
        expected = run_pytorch(network, examples)
        notes = trace(network, examples, attempt.axes, attempt.exporter, request.opset, path)
        model = onnx.load(str(path), load_external_data=False)
        _check_asked(model, attempt, request)
        if request.check:
            outputs = run_onnxruntime(path, examples)
    except ModelError as error:
        raise UnfitError(str(error)) from error
    if request.check:
        checks = (compare(outputs, expected, sizes, request.tolerance),)
        if attempt.axes:
            checks += (_check_other_sizes(network, attempt, request, path, sizes),)
    return Traced(model, checks, notes)


def _check_other_sizes(
    network: Network, attempt: Attempt, request: ExportRequest, path: Path, sizes: Mapping[str, int]
) -> ExportCheck:
    """Check other sizes: an exporter may write a symbol but build in the traced size."""
    others = {symbol: size + 1 for symbol, size in sizes.items()}
    examples = _examples(network, attempt, others)
    try:
        expected = run_pytorch(network, examples)
        return compare(run_onnxruntime(path, examples), expected, others, request.tolerance)
    except ModelError as error:
        raise UnfitError(str(error)) from error


def _examples(network: Network, attempt: Attempt, sizes: Mapping[str, int]) -> dict[str, object]:
    return example_tensors(network.inputs, with_sizes(network.inputs, attempt.axes, sizes))


def _check_asked(model: onnx.ModelProto, attempt: Attempt, request: ExportRequest) -> None:
    fixed = fixed_axes(model, attempt.axes)
    if fixed:
        raise UnfitError(f"the exporter fixed {', '.join(fixed)}")
    if request.opset is not None and opset_of(model) != request.opset:
        raise UnfitError(f"the exporter wrote operator set {opset_of(model)}, not {request.opset}")


class Exported(msgspec.Struct, frozen=True):
    """The written files. ``checks`` is empty where none was requested."""

    paths: tuple[Path, ...]  # the model, and its weights where they did not fit
    network: str
    exporter: Literal["dynamo", "torchscript"]
    opset: int
    inputs: dict[str, tuple[int | str, ...]]
    n_nodes: int
    n_parameters: int  # of the PyTorch module
    size_bytes: int  # of all paths
    checks: tuple[ExportCheck, ...]
    notes: tuple[str, ...]  # what was assumed, and which attempts failed


def export(request: ExportRequest) -> Exported:
    """Write the ONNX file that ``request`` asks for, checked against PyTorch.

    Raises UsageError (the request is wrong), ModelError (the network cannot be built or
    traced, or its file gives other results), StorageError, or MansardError where a
    library of the extra ``export`` is missing. On failure nothing is written.
    """
    if request.check:
        need("onnxruntime")
    if request.exporter == "dynamo":
        need("onnxscript")
    with workspace(request.output) as folder:  # before the network: a wrong path shows at once
        return export_network(load_network(request), request, folder)


def export_network(network: Network, request: ExportRequest, folder: Path) -> Exported:
    """Trace ``network`` in the empty ``folder``, check it, and put the file at its place.

    Raises what ``export`` raises.
    """
    failures: list[tuple[Attempt, str]] = []
    for number, attempt in enumerate(plan_attempts(network.inputs, request)):
        path = folder / str(number) / request.output.name
        path.parent.mkdir()
        try:
            traced = trace_checked(network, attempt, request, path)
        except UnfitError as error:
            failures.append((attempt, str(error)))
            shutil.rmtree(path.parent)
            continue
        paths = publish(
            traced.model, path.parent, request.output, with_weights=request.with_weights
        )
        notes = (*network.notes, *_reasons(failures), *traced.notes)
        return _exported(network, attempt, traced, paths, notes)
    is_runtime = any(RUNTIME in why for _, why in failures)
    fix = "--no-check writes it all the same" if is_runtime else None
    raise ModelError("; ".join(_reasons(failures)), where=request.source, fix=fix)


def _reasons(failures: list[tuple[Attempt, str]]) -> list[str]:
    """Each reason once, with the first attempt that failed by it; without it where all did."""
    first: dict[str, str] = {}
    for attempt, why in failures:
        first.setdefault(why, attempt.name)
    if len(first) == 1 and len(failures) > 1:
        return list(first)
    return [f"{name}: {why}" for why, name in first.items()]


def _exported(
    network: Network,
    attempt: Attempt,
    traced: Traced,
    paths: tuple[Path, ...],
    notes: tuple[str, ...],
) -> Exported:
    return Exported(
        paths=paths,
        network=network.name,
        exporter=attempt.exporter,
        opset=opset_of(traced.model),
        inputs=input_shapes(traced.model),
        n_nodes=len(traced.model.graph.node),
        n_parameters=sum(parameter.numel() for parameter in network.module.parameters()),
        size_bytes=sum(path.stat().st_size for path in paths),
        checks=traced.checks,
        notes=notes,
    )


_PREFIX = "pkg.torch."  # pkg.torch.onnx.stack_trace, pkg.torch.export.…; "namespace" stays


def without_provenance(model: onnx.ModelProto) -> None:
    """Remove PyTorch's notes from every part of ``model``, in place."""
    for part in _parts(model):
        properties = [entry for entry in part.metadata_props if not entry.key.startswith(_PREFIX)]
        if len(properties) < len(part.metadata_props):
            del part.metadata_props[:]
            part.metadata_props.extend(properties)


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
    constants = [tensor for tensor in graph.initializer if not _is_weight(tensor)]
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
    # IR version 3 lists initialisers among the inputs.
    inputs = [value for value in graph.input if value.name not in names]
    del graph.initializer[:], graph.node[:], graph.input[:]
    graph.initializer.extend([*constants, *shapes.values()])
    graph.node.extend(nodes)
    graph.input.extend(inputs)
    return len(weights)


def _is_weight(tensor: onnx.TensorProto) -> bool:
    return tensor.data_type in _FLOATING and prod(tensor.dims) >= _LEAST_ELEMENTS


def _shape(lengths: tuple[int, ...], taken: set[str]) -> onnx.TensorProto:
    """A constant with ``lengths``, under an unused name."""
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
