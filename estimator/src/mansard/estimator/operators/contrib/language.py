"""Operators of language models that are drawn from their configuration (``language.drawing``).

They multiply weights as they are stored: bytes of any format, as many as in the file. Attributes:
``N`` and ``K``, rows and columns of a matrix; ``unpack_ops``, operations that make a number of a
stored weight; ``compute``, the precision of the products. Each weight is unpacked once.
"""

from __future__ import annotations

import msgspec

from mansard.core.precision import Precision
from mansard.estimator.cost import Cost
from mansard.estimator.numbers import FLOAT16
from mansard.estimator.operators.contrib.attention import scores_cost
from mansard.estimator.operators.contrib.parts import named_activation, required
from mansard.estimator.operators.normalization import rms_norm_cost, softmax_cost
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import BAKED_IN, element_type, same_as_first
from mansard.estimator.tensors import Node

DOMAIN = "mansard"


def _unpack(node: Node, n_weights: int) -> Cost:
    return Cost(simple=node.integer("unpack_ops", 0) * n_weights)


def _matrix(node: Node) -> int:
    return required(node, "N") * required(node, "K")


def _product_shape(node: Node) -> Specs:
    data, k = node.input(0), required(node, "K")
    if not data.rank or data.shape[-1] != k:
        raise node.error(f"{data.name!r} is {list(data.shape)}: no rows of {k}", BAKED_IN)
    return [(data.dtype, (*data.shape[:-1], required(node, "N")))]


@operator("MatMulStored", domain=DOMAIN, shape=_product_shape, operands=(0,), packed={1: _matrix})
def stored_product(node: Node) -> Cost:
    """rows·K·N multiply-adds, ``unpack_ops`` operations for each of K·N weights."""
    n_weights = required(node, "K") * required(node, "N")
    n_rows = node.input(0).n_elements // max(required(node, "K"), 1)
    return Cost(macs=n_rows * n_weights) + _unpack(node, n_weights if n_rows else 0)


def _picked_shape(node: Node) -> Specs:
    return [(element_type(node, "dtype", FLOAT16), (*node.input(1).shape, required(node, "K")))]


def _picked_bytes(node: Node, precision: Precision | None) -> int:
    """The indices, each picked row once."""
    table, indices = node.input(0), node.input(1)
    n_rows = min(indices.n_elements, required(node, "N"))
    return indices.n_bytes(precision) + n_rows * table.n_bytes(precision) // required(node, "N")


@operator(
    "GatherStored",
    domain=DOMAIN,
    shape=_picked_shape,
    not_weights=(1,),
    operands=(),
    packed={0: _matrix},
    reads=_picked_bytes,
)
def stored_rows(node: Node) -> Cost:
    """``unpack_ops`` operations for each number of the picked rows."""
    return _unpack(node, node.output.n_elements)


class _StoredExperts(msgspec.Struct, frozen=True):
    n_tokens: int
    n_experts: int
    n_active: int
    hidden: int
    inner: int

    @property
    def n_used(self) -> int:
        """Experts that are used at most: all of them, or one for each choice of a token."""
        return min(self.n_experts, self.n_tokens * self.n_active)


def _expert_sizes(node: Node) -> _StoredExperts:
    data = node.input(0)
    n_experts, n_active = required(node, "n_experts"), required(node, "n_active")
    hidden, inner = required(node, "hidden"), required(node, "inner")
    if data.shape[-1] != hidden or node.input(1).shape[-1] != n_experts or n_active > n_experts:
        raise node.error(
            f"tokens {list(data.shape)} and scores {list(node.input(1).shape)} do not fit "
            f"{n_active} of {n_experts} experts of {hidden}"
        )
    return _StoredExperts(data.n_elements // hidden, n_experts, n_active, hidden, inner)


def _expert_weights(node: Node) -> int:
    sizes = _expert_sizes(node)
    return sizes.n_experts * sizes.hidden * sizes.inner


def _experts_read(node: Node, precision: Precision | None) -> int:
    """Tokens, scores, weights of experts that can be chosen."""
    sizes = _expert_sizes(node)
    read_bytes = 0
    for position, tensor in enumerate(node.inputs):
        if tensor is not None:
            n_bytes = tensor.n_bytes(precision)
            is_weight = position > 1
            read_bytes += n_bytes * sizes.n_used // sizes.n_experts if is_weight else n_bytes
    return read_bytes


@operator(
    "ExpertsStored",
    domain=DOMAIN,
    shape=same_as_first,
    not_weights=(1,),
    operands=(0,),
    packed=dict.fromkeys((2, 3, 4), _expert_weights),
    reads=_experts_read,
)
def stored_experts(node: Node) -> Cost:
    """Softmax over experts, a comparison for each choice, k experts a token.

    3·hidden·inner multiply-adds (2 without a gate) an expert, 2 an output; unpacking of the
    weights that can be chosen.
    """
    sizes = _expert_sizes(node)
    n_matrices = sum(node.has(position) for position in (2, 3, 4))
    n_chosen = sizes.n_tokens * sizes.n_active
    macs = n_chosen * n_matrices * sizes.hidden * sizes.inner
    work = softmax_cost(sizes.n_tokens, sizes.n_experts) + Cost(
        macs=macs, simple=n_chosen * (sizes.n_experts + 2 * sizes.hidden + sizes.inner)
    )
    work += named_activation(node, node.text("activation", "silu")) * (n_chosen * sizes.inner)
    return work + _unpack(node, sizes.n_used * n_matrices * sizes.hidden * sizes.inner)


class _LatentRows(msgspec.Struct, frozen=True):
    """``width``: of the part of a query that is not rotated. A cached row is rank + rotary."""

    batch: int
    n_new: int
    n_past: int
    heads: int
    width: int
    v_width: int
    rank: int
    rotary: int

    @property
    def n_keys(self) -> int:
        return self.n_past + self.n_new

    @property
    def n_rows(self) -> int:
        return self.batch * self.heads * self.n_new


def _latent_sizes(node: Node) -> _LatentRows:
    query, new, past = node.input(0), node.input(1), node.optional(2)
    heads, width = required(node, "num_heads"), required(node, "width")
    v_width, rank = required(node, "v_width"), required(node, "rank")
    rotary = node.integer("rotary", 0)
    if query.shape[-1] != heads * (width + rotary) or new.shape[-1] != rank + rotary:
        raise node.error(
            f"queries {list(query.shape)} and rows {list(new.shape)} do not fit {heads} heads"
        )
    n_past = past.shape[1] if past is not None else 0
    return _LatentRows(query.shape[0], query.shape[1], n_past, heads, width, v_width, rank, rotary)


def _latent_shape(node: Node) -> Specs:
    sizes = _latent_sizes(node)
    cache = node.optional(2) or node.input(1)
    return [
        (node.input(0).dtype, (sizes.batch, sizes.n_new, sizes.heads * sizes.v_width)),
        (cache.dtype, (sizes.batch, sizes.n_keys, cache.shape[-1])),
    ]


def _latent_weights(node: Node) -> int:
    sizes = _latent_sizes(node)
    return sizes.rank * sizes.heads * (sizes.width + sizes.v_width)


def _first_weights(node: Node) -> int:
    """Those of input 4: of keys and values, or of keys alone where input 5 has the values."""
    return _latent_weights(node) - (_value_weights(node) if node.has(5) else 0)


def _value_weights(node: Node) -> int:
    sizes = _latent_sizes(node)
    return sizes.rank * sizes.heads * sizes.v_width


@operator(
    "LatentAttention",
    domain=DOMAIN,
    shape=_latent_shape,
    not_weights=(1, 2),
    operands=(0,),
    packed={4: _first_weights, 5: _value_weights},
)
def latent_attention(node: Node) -> Cost:
    """Attention over compressed rows, the cheaper of two forms (arXiv:2405.04434, 2.1).

    Expanded (prefill): rank × heads·(width + v_width) multiply-adds a row, heads of width +
    rotary. Absorbed (decode): that matrix on queries and results, scores over rank + rotary.
    """
    sizes = _latent_sizes(node)
    n_pairs = sizes.n_rows * sizes.n_keys
    expanded = scores_cost(
        n_pairs, sizes.n_rows, sizes.width + sizes.rotary, sizes.v_width, 1
    ) + Cost(macs=sizes.batch * sizes.n_keys * _latent_weights(node))
    absorbed = scores_cost(n_pairs, sizes.n_rows, sizes.rank + sizes.rotary, sizes.rank, 1) + Cost(
        macs=sizes.batch * sizes.n_new * _latent_weights(node)
    )
    rotated = Cost(simple=3 * sizes.batch * sizes.n_new * sizes.rotary * (sizes.heads + 1))
    normed = rms_norm_cost(sizes.batch * sizes.n_new * sizes.rank, sizes.rank, 1)
    cheaper = min(expanded, absorbed, key=lambda cost: cost.work_flop)
    return cheaper + rotated + normed + _unpack(node, _latent_weights(node))
