"""The ways to trace a network, tried one after another until one gives a file that is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from mansard.core.errors import ModelError
from mansard.estimator.export.axes import plan_axes, traced_sizes, with_sizes
from mansard.estimator.export.checking import ExportCheck, compare, run_onnxruntime, run_pytorch
from mansard.estimator.export.graph import fixed_axes, opset_of
from mansard.estimator.export.network import Input, Network
from mansard.estimator.export.request import DynamicAxis, ExportRequest
from mansard.estimator.export.tensors import example_tensors
from mansard.estimator.export.tracing import trace

if TYPE_CHECKING:
    import onnx

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
