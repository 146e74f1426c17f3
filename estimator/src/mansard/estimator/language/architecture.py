"""The sizes of a language model, whatever file they come from.

Tensors have the names of GGUF (``blk.0.attn_q.weight``), which are the same for all families:
https://github.com/ggml-org/llama.cpp/blob/master/gguf-py/gguf/constants.py. A reader makes an
``Architecture`` of a file; ``drawing`` makes a network of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Activation = Literal["silu", "gelu", "gelu_tanh", "relu2"]


class StoredWeight(msgspec.Struct, frozen=True):
    """One tensor as it is stored. ``shape``: rows first, as PyTorch has it: [outputs, inputs].

    ``format``: a name of ``core.weight_formats``, or of ``grouped_format``. ``n_bytes``: all of it,
    scales and zero points included. ``compute`` and ``unpack_ops``: as those of the format.
    """

    format: str
    shape: tuple[int, ...]
    n_bytes: int
    compute: str
    unpack_ops: int = 0


class LatentSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): what the cache holds of a token.

    The cache holds ``key_rank`` numbers, of which all heads make their keys and values, and
    ``rotary_width`` that all heads share. ``query_rank``: of the compressed query; None: there is
    none.
    """

    key_rank: int
    rotary_width: int
    query_rank: int | None


class AttentionSizes(msgspec.Struct, frozen=True, kw_only=True):
    """The attention of one block. ``head_width``: of queries and keys, rotary part included.

    ``window``: a query sees this many keys at most, itself included; None: all of them.
    """

    n_heads: int
    n_kv_heads: int
    head_width: int
    value_width: int
    rotary_width: int
    window: int | None = None
    has_softcap: bool = False
    latent: LatentSizes | None = None


class ExpertSizes(msgspec.Struct, frozen=True, kw_only=True):
    """A mixture of experts: each token runs through ``n_active`` of them, and the shared one.

    ``shared_width``: of all shared experts together; 0: there is none.
    """

    n_experts: int
    n_active: int
    width: int
    shared_width: int = 0


class DecoderBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One decoder block. Exactly one of ``width`` (of a dense feed-forward) and ``experts`` is set.

    ``has_post_norms``: what attention and feed-forward add is normalised, too (gemma 2 and 3).
    """

    attention: AttentionSizes
    width: int | None
    experts: ExpertSizes | None = None
    has_post_norms: bool = False


class VisionTower(msgspec.Struct, frozen=True, kw_only=True):
    """The encoder of images: a transformer over patches, and the projection to tokens.

    ``n_tokens``: that one image of ``image_side`` becomes in the language model.
    ``projection``: widths of the layers between tower and language model.
    """

    n_blocks: int
    hidden: int
    width: int  # of the feed-forward
    n_heads: int
    image_side: int
    patch_side: int
    n_tokens: int
    is_gated: bool = False
    has_class_token: bool = False
    projection: tuple[int, ...] = ()
    n_channels: int = 3


class Architecture(msgspec.Struct, frozen=True, kw_only=True):
    """A language model: all that work, traffic and memory follow from.

    ``weights``: every tensor by its GGUF name. ``is_tied``: the output matrix is the embedding.
    ``context``: tokens that it was trained for; None: the file does not say.
    ``is_parallel``: attention and feed-forward read the same normalised input and are added.
    """

    family: str
    hidden: int
    vocabulary: int
    blocks: tuple[DecoderBlock, ...]
    weights: Mapping[str, StoredWeight]
    is_tied: bool
    activation: Activation = "silu"
    is_gated: bool = True
    norm: Literal["rms", "layer"] = "rms"
    context: int | None = None
    has_output_softcap: bool = False
    has_scaled_embedding: bool = False
    vision: VisionTower | None = None
