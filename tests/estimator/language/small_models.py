"""Small language models as records, for tests of what is drawn of them."""

from __future__ import annotations

import msgspec

from mansard.core.records import ModelScore
from mansard.core.weight_formats import weight_format
from mansard.estimator import Given, Settings, score_loaded
from mansard.estimator.caches import find_caches
from mansard.estimator.decoding import Stage, with_stage
from mansard.estimator.language.architecture import (
    Architecture,
    AttentionSizes,
    DecoderBlock,
    StoredWeight,
)
from mansard.estimator.language.drawing import draw
from mansard.estimator.language.graph import DrawnModel
from mansard.estimator.layers import ConstantRows
from mansard.estimator.scoring import Loaded
from mansard.estimator.shape_inference.inference import prepare

HIDDEN, INNER, HEADS, KV_HEADS, WIDTH, WORDS = 256, 512, 4, 2, 64, 1000


def stored(form: str, *shape: int) -> StoredWeight:
    """A matrix in ``form``, or a vector in fp16."""
    known = weight_format(form if len(shape) > 1 else "fp16")
    n_rows = 1
    for size in shape[:-1]:
        n_rows *= size
    return StoredWeight(
        known.name, shape, known.size_bytes(n_rows, shape[-1]), known.compute, known.unpack_ops
    )


def attention(**changes: object) -> AttentionSizes:
    """Four heads that share the keys and values of two."""
    sizes = AttentionSizes(
        n_heads=HEADS, n_kv_heads=KV_HEADS, head_width=WIDTH, value_width=WIDTH, rotary_width=WIDTH
    )
    return msgspec.structs.replace(sizes, **changes)


def llama(form: str = "fp16", n_blocks: int = 1, **changes: object) -> Architecture:
    """A llama whose matrices are stored in ``form``."""
    weights = {
        "token_embd.weight": stored(form, WORDS, HIDDEN),
        "output.weight": stored(form, WORDS, HIDDEN),
        "output_norm.weight": stored(form, HIDDEN),
    }
    for number in range(n_blocks):
        of_block = {
            "attn_norm": (HIDDEN,),
            "attn_q": (HEADS * WIDTH, HIDDEN),
            "attn_k": (KV_HEADS * WIDTH, HIDDEN),
            "attn_v": (KV_HEADS * WIDTH, HIDDEN),
            "attn_output": (HIDDEN, HEADS * WIDTH),
            "ffn_norm": (HIDDEN,),
            "ffn_gate": (INNER, HIDDEN),
            "ffn_up": (INNER, HIDDEN),
            "ffn_down": (HIDDEN, INNER),
        }
        weights |= {f"blk.{number}.{n}.weight": stored(form, *s) for n, s in of_block.items()}
    made = Architecture(
        family="llama",
        hidden=HIDDEN,
        vocabulary=WORDS,
        blocks=(DecoderBlock(attention=attention(), width=INNER),) * n_blocks,
        weights=weights,
        is_tied=False,
        context=4096,
    )
    return msgspec.structs.replace(made, **changes)


def with_weights(model: Architecture, form: str, **shapes: tuple[int, ...]) -> Architecture:
    """``model`` with more weights, ``blk.0.`` before their names; an empty shape removes one."""
    weights = dict(model.weights)
    for name, shape in shapes.items():
        if shape:
            weights[f"blk.0.{name}.weight"] = stored(form, *shape)
        else:
            del weights[f"blk.0.{name}.weight"]
    return msgspec.structs.replace(model, weights=weights)


def loaded(model: Architecture, cache_format: str | None = None) -> Loaded:
    """The network that is drawn of ``model``."""
    network = draw(DrawnModel(architecture=model, cache_format=cache_format))
    prepared = prepare(network)
    caches = find_caches(network, prepared.tensors)
    return Loaded("m", "m", "", network, prepared, ConstantRows(), caches)


def score_stage(
    model: Architecture, n_new: int, n_cached: int, batch: int = 1, cache_format: str | None = None
) -> ModelScore:
    """One call of the model: ``n_new`` tokens behind ``n_cached``."""
    network = loaded(model, cache_format)
    given, notes = with_stage(network, Given(batch=batch), Stage(n_new, n_cached))
    assert notes == ()
    return score_loaded(network, Settings(given, kv_cache="in-place"))
