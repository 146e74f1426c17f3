"""One export from beginning to end: load, trace, check, write.

The ways to trace a network are tried one after another until one gives a file that is right.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.export.checking import (
    RUNTIME,
    ExportCheck,
    compare,
    run_onnxruntime,
    run_pytorch,
)
from mansard.estimator.export.extras import need
from mansard.estimator.export.network import Input, Network, example_tensors
from mansard.estimator.export.request import DynamicAxis, ExportRequest
from mansard.estimator.export.sources import load_network
from mansard.estimator.export.tracing import plan_axes, trace, traced_sizes, with_sizes
from mansard.estimator.export.writing import publish, workspace

if TYPE_CHECKING:
    import onnx


def opset_of(model: onnx.ModelProto) -> int:
    """The version of the standard operators; 0 where the file names none."""
    return max(
        (one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0
    )


def input_shapes(model: onnx.ModelProto) -> dict[str, tuple[int | str, ...]]:
    """The shape of each input that is no weight: sizes, symbols, ``?`` where there is neither."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return {
        one.name: tuple(_size(axis) for axis in one.type.tensor_type.shape.dim)
        for one in model.graph.input
        if one.name not in stored
    }


def _size(axis: onnx.TensorShapeProto.Dimension) -> int | str:
    if axis.HasField("dim_value"):
        return int(axis.dim_value)
    return axis.dim_param or "?"


def fixed_axes(model: onnx.ModelProto, axes: Sequence[DynamicAxis]) -> list[str]:
    """Those of ``axes`` that the exporter made constants, as a person would write them."""
    shapes = input_shapes(model)
    return [
        f"{one.name}:{one.axis}={shapes[one.name][one.axis]}"
        for one in axes
        if one.name in shapes and isinstance(shapes[one.name][one.axis], int)
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
    """An attempt failed in a way in which another may not."""


def plan_attempts(inputs: Sequence[Input], request: ExportRequest) -> tuple[Attempt, ...]:
    """What to try, in this order: the newer exporter, the older one.

    Where some symbols are only our default, both once more without those. Raises
    UsageError.
    """
    wanted = plan_axes(inputs, request.dynamic, is_static=True)
    exporters: tuple[Chosen, ...] = (
        ("dynamo", "torchscript") if request.exporter == "auto" else (request.exporter,)
    )
    fixed = tuple(Attempt(one, wanted, f"{one} with fixed sizes") for one in exporters)
    axes = plan_axes(inputs, request.dynamic, is_static=request.is_static)
    if set(axes) == set(wanted):
        return fixed
    return (*(Attempt(one, axes, one) for one in exporters), *fixed)


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
            given = run_onnxruntime(path, examples)
    except ModelError as error:
        raise UnfitError(str(error)) from error
    if request.check:
        checks = (compare(given, expected, sizes, request.tolerance),)
        if attempt.axes:
            checks += (_check_other_sizes(network, attempt, request, path, sizes),)
    return Traced(model, checks, notes)


def _check_other_sizes(
    network: Network, attempt: Attempt, request: ExportRequest, path: Path, sizes: Mapping[str, int]
) -> ExportCheck:
    """An exporter may write a symbol and yet build the traced size into the graph."""
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
    """What was written. ``checks`` is empty where none was wanted."""

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
        notes = (*network.notes, *_told(failures), *traced.notes)
        return _exported(network, attempt, traced, paths, notes)
    is_runtime = any(RUNTIME in why for _, why in failures)
    fix = "--no-check writes it all the same" if is_runtime else None
    raise ModelError("; ".join(_told(failures)), where=request.source, fix=fix)


def _told(failures: list[tuple[Attempt, str]]) -> list[str]:
    """Each reason once, with the first attempt that it ended; alone where all had the same."""
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
