"""One interface to PyTorch's two exporters, and the axes that stay symbolic."""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Literal

from mansard.core.errors import UsageError
from mansard.estimator.export.network import (
    Input,
    Network,
    foreign_code,
    forward_parameters,
    need,
    refuse_unknown,
)
from mansard.estimator.export.request import BATCH, DynamicAxis

_LEAST_TRACED = 2  # PyTorch takes an axis of length 1 for a constant, broadcasting depends on it


def plan_axes(
    inputs: Sequence[Input], wanted: Sequence[DynamicAxis], *, is_static: bool
) -> tuple[DynamicAxis, ...]:
    """The symbolic axes: those ``wanted``, and by default axis 0 of every input as ``batch``.

    By default, too, what the network's source says (the sequence of a language model).
    An input whose axis 0 differs from the first one's is no batch. Raises UsageError for
    an axis that is not there, or a symbol that would have two sizes.
    """
    by_name = {source.name: source for source in inputs}
    for axis in wanted:
        if axis.name not in by_name:
            refuse_unknown("--dynamic: the input", axis.name, list(by_name))
        if axis.axis >= len(by_name[axis.name].shape):
            rank = len(by_name[axis.name].shape)
            raise UsageError(f"--dynamic: {axis.name} has {rank} axes, there is no {axis.axis}")
    planned = list(wanted) if is_static else [*wanted, *_defaults(inputs, wanted)]
    traced_sizes(inputs, planned)
    return tuple(planned)


def _defaults(inputs: Sequence[Input], wanted: Sequence[DynamicAxis]) -> list[DynamicAxis]:
    taken = {(axis.name, axis.axis) for axis in wanted}
    used = {(axis.name, axis.symbol) for axis in wanted}
    batch = next((source.shape[0] for source in inputs if source.shape), None)
    axes: list[DynamicAxis] = []
    for source in inputs:
        symbols = {0: BATCH} if source.shape and source.shape[0] == batch else {}
        for axis, symbol in {**symbols, **source.symbols}.items():
            is_free = (source.name, axis) not in taken and (source.name, symbol) not in used
            if is_free and axis < len(source.shape):
                axes.append(DynamicAxis(source.name, axis, symbol))
    return axes


def traced_sizes(inputs: Sequence[Input], axes: Sequence[DynamicAxis]) -> dict[str, int]:
    """The size of each symbol for tracing: the input's own, at least 2; raises UsageError."""
    shapes = {source.name: source.shape for source in inputs}
    sizes: dict[str, int] = {}
    for axis in axes:
        size = shapes[axis.name][axis.axis]
        if sizes.setdefault(axis.symbol, size) != size:
            raise UsageError(
                f"--dynamic: {axis.symbol} would be {sizes[axis.symbol]} and {size}",
                fix="give axes that differ names that differ",
            )
    return {symbol: max(size, _LEAST_TRACED) for symbol, size in sizes.items()}


def with_sizes(
    inputs: Sequence[Input], axes: Sequence[DynamicAxis], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """The shape of each input when its symbols have ``sizes``."""
    shapes = {source.name: list(source.shape) for source in inputs}
    for axis in axes:
        shapes[axis.name][axis.axis] = sizes[axis.symbol]
    return {name: tuple(shape) for name, shape in shapes.items()}


# Tracing: a network in, an ONNX file in a folder out.


_LARGEST_FILE_BYTES = 1_900_000_000  # protobuf ends at 2 GiB; the graph needs some of it
_BRANCH = "Converting a tensor to a Python boolean"  # torch.jit.TracerWarning


def trace(
    network: Network,
    examples: Mapping[str, Any],
    axes: Sequence[DynamicAxis],
    exporter: Literal["dynamo", "torchscript"],
    opset: int | None,
    path: Path,
) -> tuple[str, ...]:
    """Export into ``path``; weights of more than 1.9 GB lie beside it.

    Returns what the exporter said that matters. Raises ModelError for whatever the
    exporter or the network raises.
    """
    torch = need("torch")
    with foreign_code(f"the {exporter} exporter"), _quiet() as said, _plain(torch):
        if exporter == "dynamo":
            need("onnxscript")
            _trace_dynamo(torch, network, examples, axes, opset, path)
        else:
            _trace_torchscript(torch, network, examples, axes, opset, path)
    return branches_taken([str(warning.message) for warning in said])


def _trace_dynamo(
    torch: Any,
    network: Network,
    examples: Mapping[str, Any],
    axes: Sequence[DynamicAxis],
    opset: int | None,
    path: Path,
) -> None:
    dynamic = {name: {a.axis: a.symbol for a in axes if a.name == name} for name in examples}
    program = torch.onnx.export(
        network.module,
        (),
        kwargs=dict(examples),
        dynamic_shapes=dynamic if axes else None,
        opset_version=opset,
        dynamo=True,
        verbose=False,
    )
    weights = program.model.graph.initializers.values()
    n_bytes = sum(w.const_value.nbytes for w in weights if w.const_value is not None)
    program.save(str(path), external_data=n_bytes > _LARGEST_FILE_BYTES)


def _trace_torchscript(
    torch: Any,
    network: Network,
    examples: Mapping[str, Any],
    axes: Sequence[DynamicAxis],
    opset: int | None,
    path: Path,
) -> None:
    names = list(examples)
    takes_only_these = list(forward_parameters(network.module)[0]) == names
    module = network.module if takes_only_these else _by_position(torch, network.module, names)
    torch.onnx.export(
        module,
        tuple(examples.values()),
        str(path),
        input_names=names,
        dynamic_axes={n: {a.axis: a.symbol for a in axes if a.name == n} for n in names},
        opset_version=opset,
        dynamo=False,
    )


def _by_position(torch: Any, module: Any, names: Sequence[str]) -> Any:
    """``module`` with the arguments ``names`` by position: this exporter knows no others."""

    class Positional(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = module

        def forward(self, *tensors: Any) -> Any:
            outputs = self.network(**dict(zip(names, tensors, strict=True)))
            to_tuple = getattr(outputs, "to_tuple", None)  # the named outputs of transformers
            return to_tuple() if to_tuple is not None else outputs

    return Positional().eval()


def branches_taken(warnings_said: Sequence[str]) -> tuple[str, ...]:
    """A note on Python branches that depended on a tensor: the other side is not exported."""
    places = {text for text in warnings_said if _BRANCH in text}
    if not places:
        return ()
    return (
        f"torchscript followed {len(places)} Python conditions on tensors as the example "
        "inputs had them; the file does the same for all inputs",
    )


@contextmanager
def _plain(torch: Any) -> Iterator[None]:
    """Without gradients and without the fused attention that PyTorch takes then, an
    operator that TorchScript's exporter does not know."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Without what the exporters log, print and warn of, hundreds of lines; gives the warnings.

    Whether the file is right is checked, not read from there. TorchScript prints from C++
    too, past Python's streams, on the stdout that is for data.
    """
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(record=True) as said,
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
            _to_null(1),
            _to_null(2),
        ):
            warnings.simplefilter("always")
            yield said
    finally:
        logging.disable(before)


@contextmanager
def _to_null(descriptor: int) -> Iterator[None]:
    """Discard what is written to ``descriptor`` in the block."""
    original = os.dup(descriptor)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, descriptor)
        yield
    finally:
        os.dup2(original, descriptor)
        os.close(original)
        os.close(null)
