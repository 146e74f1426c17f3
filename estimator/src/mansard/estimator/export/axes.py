"""Which axes of the inputs stay symbols, and which sizes the network is traced with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.core.errors import UsageError
from mansard.estimator.export.network import Input, refuse_unknown
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
    known = {one.name: one for one in inputs}
    for axis in wanted:
        if axis.name not in known:
            refuse_unknown("--dynamic: the input", axis.name, list(known))
        if axis.axis >= len(known[axis.name].shape):
            rank = len(known[axis.name].shape)
            raise UsageError(f"--dynamic: {axis.name} has {rank} axes, there is no {axis.axis}")
    planned = list(wanted) if is_static else [*wanted, *_defaults(inputs, wanted)]
    traced_sizes(inputs, planned)
    return tuple(planned)


def _defaults(inputs: Sequence[Input], wanted: Sequence[DynamicAxis]) -> list[DynamicAxis]:
    taken = {(axis.name, axis.axis) for axis in wanted}
    used = {(axis.name, axis.symbol) for axis in wanted}
    batch = next((one.shape[0] for one in inputs if one.shape), None)
    axes: list[DynamicAxis] = []
    for one in inputs:
        symbols = {0: BATCH} if one.shape and one.shape[0] == batch else {}
        for axis, symbol in {**symbols, **one.symbols}.items():
            is_free = (one.name, axis) not in taken and (one.name, symbol) not in used
            if is_free and axis < len(one.shape):
                axes.append(DynamicAxis(one.name, axis, symbol))
    return axes


def traced_sizes(inputs: Sequence[Input], axes: Sequence[DynamicAxis]) -> dict[str, int]:
    """The size of each symbol for tracing: the input's own, at least 2; raises UsageError."""
    shapes = {one.name: one.shape for one in inputs}
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
    shapes = {one.name: list(one.shape) for one in inputs}
    for axis in axes:
        shapes[axis.name][axis.axis] = sizes[axis.symbol]
    return {name: tuple(shape) for name, shape in shapes.items()}
