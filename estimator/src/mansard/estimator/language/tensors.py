"""Every tensor of a language model by its GGUF name, with its shape, from its sizes alone.

Shapes are [outputs, inputs], as PyTorch has them; GGUF writes them in the opposite order. The
names are those of ``gguf-py/gguf/constants.py`` of llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from mansard.core.errors import ModelError
from mansard.core.weight_formats import WeightFormat
from mansard.estimator.language.architecture import (
    Architecture,
    AttentionSizes,
    DecoderBlock,
    ExpertSizes,
    StoredWeight,
)

Shape = tuple[int, ...]
VISION = ("v.", "mm.")  # how names of an image encoder and its projection begin
Named = Iterator[tuple[str, Shape]]


class TensorLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Which tensors a model has where its sizes leave a choice.

    ``has_output_bias``: of the attention. ``has_shared_gate``: qwen2moe weighs its shared expert.
    ``has_router_bias``: deepseek-v3 adds one to the router's scores. ``has_split_latent``: newer
    files store the two halves of ``attn_kv_b`` apart.
    """

    has_qkv_bias: bool = False
    has_output_bias: bool = False
    has_feed_forward_bias: bool = False
    has_qk_norm: bool = False
    is_qkv_fused: bool = False
    is_gate_up_fused: bool = False
    has_shared_gate: bool = False
    has_router_bias: bool = False
    has_split_latent: bool = False


def layout_of(names: Iterable[str]) -> TensorLayout:
    """The layout that the names of a file's tensors show."""
    # Blocks differ (the first ones of deepseek are dense): a tensor counts wherever it is.
    endings = {name.split(".", 2)[2] for name in names if name.startswith("blk.")}
    return TensorLayout(
        has_qkv_bias=bool(endings & {"attn_q.bias", "attn_qkv.bias"}),
        has_output_bias="attn_output.bias" in endings,
        has_feed_forward_bias="ffn_down.bias" in endings,
        has_qk_norm="attn_q_norm.weight" in endings,
        is_qkv_fused="attn_qkv.weight" in endings,
        is_gate_up_fused="ffn_up.weight" in endings and "ffn_gate.weight" not in endings,
        has_shared_gate="ffn_gate_inp_shexp.weight" in endings,
        has_router_bias="exp_probs_b.bias" in endings,
        has_split_latent="attn_k_b.weight" in endings,
    )


def expected_shapes(architecture: Architecture, layout: TensorLayout) -> dict[str, Shape]:
    """Every tensor of the language model, vision towers excluded."""
    hidden, vocabulary = architecture.hidden, architecture.vocabulary
    shapes: dict[str, Shape] = {"token_embd.weight": (vocabulary, hidden)}
    for index, block in enumerate(architecture.blocks):
        parts = _attention(block, hidden, layout), _feed_forward(block, hidden, layout)
        shapes |= {f"blk.{index}.{name}": shape for part in parts for name, shape in part}
    shapes["output_norm.weight"] = (hidden,)
    if not architecture.is_tied:
        shapes["output.weight"] = (vocabulary, hidden)
    return shapes


def _linear(name: str, shape: Shape, has_bias: bool) -> Named:
    yield f"{name}.weight", shape
    if has_bias:
        yield f"{name}.bias", shape[:1]


def _attention(block: DecoderBlock, hidden: int, layout: TensorLayout) -> Named:
    sizes = block.attention
    yield "attn_norm.weight", (hidden,)
    if sizes.latent is None:
        yield from _projections(sizes, hidden, layout)
    else:
        yield from _latent_projections(sizes, hidden, layout)
    values = sizes.n_heads * sizes.value_width
    yield from _linear("attn_output", (hidden, values), layout.has_output_bias)
    if block.has_post_norms:
        yield "post_attention_norm.weight", (hidden,)


def _projections(sizes: AttentionSizes, hidden: int, layout: TensorLayout) -> Named:
    queries = sizes.n_heads * sizes.head_width
    keys = sizes.n_kv_heads * sizes.head_width
    values = sizes.n_kv_heads * sizes.value_width
    if layout.is_qkv_fused:
        yield from _linear("attn_qkv", (queries + keys + values, hidden), layout.has_qkv_bias)
    else:
        for letter, rows in (("q", queries), ("k", keys), ("v", values)):
            yield from _linear(f"attn_{letter}", (rows, hidden), layout.has_qkv_bias)
    if layout.has_qk_norm:
        yield "attn_q_norm.weight", (sizes.head_width,)
        yield "attn_k_norm.weight", (sizes.head_width,)


def _latent_projections(sizes: AttentionSizes, hidden: int, layout: TensorLayout) -> Named:
    latent = sizes.latent
    assert latent is not None  # noqa: S101 - the caller asks only then
    queries = sizes.n_heads * sizes.head_width
    if latent.query_rank is None:
        yield "attn_q.weight", (queries, hidden)
    else:
        yield "attn_q_a.weight", (latent.query_rank, hidden)
        yield "attn_q_a_norm.weight", (latent.query_rank,)
        yield "attn_q_b.weight", (queries, latent.query_rank)
    yield "attn_kv_a_mqa.weight", (latent.key_rank + latent.rotary_width, hidden)
    yield "attn_kv_a_norm.weight", (latent.key_rank,)
    plain = sizes.head_width - latent.rotary_width
    if layout.has_split_latent:
        # The keys' half is transposed: it is multiplied with queries.
        yield "attn_k_b.weight", (sizes.n_heads, latent.key_rank, plain)
        yield "attn_v_b.weight", (sizes.n_heads, sizes.value_width, latent.key_rank)
    else:
        rows = sizes.n_heads * (plain + sizes.value_width)
        yield "attn_kv_b.weight", (rows, latent.key_rank)


def _feed_forward(block: DecoderBlock, hidden: int, layout: TensorLayout) -> Named:
    yield "ffn_norm.weight", (hidden,)
    if block.experts is not None:
        yield from _mixture(block.experts, hidden, layout)
    elif block.width is not None:
        has_bias = layout.has_feed_forward_bias
        if layout.is_gate_up_fused:
            yield from _linear("ffn_up", (2 * block.width, hidden), has_bias)
        else:
            yield from _linear("ffn_gate", (block.width, hidden), has_bias)
            yield from _linear("ffn_up", (block.width, hidden), has_bias)
        yield from _linear("ffn_down", (hidden, block.width), has_bias)
    if block.has_post_norms:
        yield "post_ffw_norm.weight", (hidden,)


def _mixture(experts: ExpertSizes, hidden: int, layout: TensorLayout) -> Named:
    yield "ffn_gate_inp.weight", (experts.n_experts, hidden)
    if layout.has_router_bias:
        yield "exp_probs_b.bias", (experts.n_experts,)
    yield "ffn_gate_exps.weight", (experts.n_experts, experts.width, hidden)
    yield "ffn_up_exps.weight", (experts.n_experts, experts.width, hidden)
    yield "ffn_down_exps.weight", (experts.n_experts, hidden, experts.width)
    if experts.shared_width:
        if layout.has_shared_gate:
            yield "ffn_gate_inp_shexp.weight", (hidden,)
        yield "ffn_gate_shexp.weight", (experts.shared_width, hidden)
        yield "ffn_up_shexp.weight", (experts.shared_width, hidden)
        yield "ffn_down_shexp.weight", (hidden, experts.shared_width)


def is_linear(name: str, shape: Shape) -> bool:
    """Whether it is a matrix of a block that quantisers of Hugging Face models store in few bits.

    They leave embeddings, the output, norms, biases and routers as they are.
    """
    return (
        len(shape) > 1
        and name.startswith("blk.")
        and name.endswith(".weight")
        and "ffn_gate_inp" not in name
    )


def stored(shape: Shape, form: WeightFormat) -> StoredWeight:
    """A tensor of ``shape`` in one format, whose last block may be shared by rows."""
    return StoredWeight(
        format=form.name,
        shape=shape,
        n_bytes=form.size_bytes(1, math.prod(shape)),
        compute=form.compute,
        unpack_ops=form.unpack_ops,
    )


def stored_weights(
    shapes: Mapping[str, Shape], form: Callable[[str, Shape], WeightFormat]
) -> dict[str, StoredWeight]:
    """Every tensor in the format that ``form`` says."""
    return {name: stored(shape, form(name, shape)) for name, shape in shapes.items()}


def check_shapes(expected: Mapping[str, Shape], actual: Mapping[str, Shape]) -> None:
    """Raises ModelError for the first tensor that is missing, or whose shape is another one."""
    for name, shape in expected.items():
        if name not in actual:
            raise ModelError(
                f"the tensor {name!r} is missing", fix="get the model's file again, whole"
            )
        if actual[name] != shape:
            raise ModelError(
                f"the tensor {name!r} is {list(actual[name])}, the model's sizes say {list(shape)}",
                fix="get the model's file again",
            )


def n_parameters(weights: Mapping[str, StoredWeight]) -> int:
    """Numbers in all tensors."""
    return sum(math.prod(one.shape) for one in weights.values())
