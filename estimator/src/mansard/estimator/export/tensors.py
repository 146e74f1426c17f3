"""Tensors to trace and check a network with: the same every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mansard.estimator.export.extras import need
from mansard.estimator.export.network import Input

_SEED = 0


def example_tensors(
    inputs: Sequence[Input], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """One tensor for each input: floats from N(0, 1), integers and ones as it says."""
    torch = need("torch")
    generator = torch.Generator().manual_seed(_SEED)
    return {one.name: _tensor(torch, one, shapes[one.name], generator) for one in inputs}


def _tensor(torch: Any, one: Input, shape: tuple[int, ...], generator: Any) -> Any:
    dtype = getattr(torch, one.dtype)
    if one.fill == "ones":
        return torch.ones(shape, dtype=dtype)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, one.high, shape, generator=generator).to(dtype)


def flat_tensors(outputs: Any) -> list[Any]:
    """The tensors in what ``forward`` returned, in the order in which exporters write them."""
    torch = need("torch")
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
