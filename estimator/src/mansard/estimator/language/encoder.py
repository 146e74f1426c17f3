"""The encoder of images of a vision-language model, drawn beside its decoder.

Its input is the patches of so many images, whose number is the dimension ``images``: 0 where none
is given, and in decode. The tokens that it makes are part of the prompt.
"""

from __future__ import annotations

from math import prod

from mansard.estimator.language.architecture import VisionTower
from mansard.estimator.language.graph import ModelGraph
from mansard.estimator.model import ModelInput

_PATCHES = "v.patches"


def draw_encoder(graph: ModelGraph, tower: VisionTower) -> tuple[str, ...]:
    """Draw it into ``graph``; returns what is to be said of it."""
    n_patches = (tower.image_side // tower.patch_side) ** 2
    weight = graph.model.weights["v.patch_embd.weight"]
    shape = ("images", n_patches, prod(weight.shape[1:]))
    graph.inputs.append(ModelInput(_PATCHES, graph.hidden, shape))
    state = _product(graph, _PATCHES, "v.patch_embd")
    if graph.has("v.position_embd.weight"):
        positions = graph.vector("v.position_embd.weight")
        if tower.has_class_token:  # its row is added to the class token, which is one of 577
            rows = graph.integers("v.rows", *range(n_patches))
            positions = graph.node("Gather", (positions, rows), "v.positions", {"axis": 0})
        state = graph.node("Add", (state, positions), "v.positioned")
    state = _norm(graph, state, "v.pre_ln")
    for number in range(tower.n_blocks):
        state = _block(graph, tower, number, state)
    state = _norm(graph, state, "v.post_ln")
    tokens = _project(graph, tower, state, n_patches)
    n_wide = graph.model.hidden
    graph.outputs.append(ModelInput(tokens, graph.hidden, ("images", tower.n_tokens, n_wide)))
    return (
        f"images count with --dim images=1: the encoder runs once for each, and its "
        f"{tower.n_tokens} tokens are part of the prompt",
    )


def _product(graph: ModelGraph, data: str, name: str) -> str:
    """A product and its bias; no weight is read where there is no image."""
    return graph.product(data, f"{name}.weight", name, is_packed=True)


def _norm(graph: ModelGraph, data: str, name: str) -> str:
    """A norm, with mean where it has a bias; nothing where the encoder has no such norm."""
    scale, bias = graph.vector(f"{name}.weight"), graph.vector(f"{name}.bias")
    if not scale:
        return data
    op_type = "LayerNormalization" if bias else "RMSNormalization"
    return graph.node(op_type, tuple(filter(None, (data, scale, bias))), name)


def _block(graph: ModelGraph, tower: VisionTower, number: int, state: str) -> str:
    at = f"v.blk.{number}"
    data = _norm(graph, state, f"{at}.ln1")
    if graph.has(f"{at}.attn_qkv.weight"):
        whole = _product(graph, data, f"{at}.attn_qkv")
        parts = tuple(f"{at}.attn_{which}" for which in "qkv")
        graph.node("Split", (whole,), f"{at}.split", {"axis": -1, "num_outputs": 3}, outputs=parts)
    else:
        parts = tuple(_product(graph, data, f"{at}.attn_{which}") for which in "qkv")
    heads = {"q_num_heads": tower.n_heads, "kv_num_heads": tower.n_heads}
    added = graph.node("Attention", parts, f"{at}.attn", heads)
    added = _product(graph, added, f"{at}.attn_out")
    state = graph.node("Add", (state, added), f"{at}.attn_add")
    data = _norm(graph, state, f"{at}.ln2")
    up = _product(graph, data, f"{at}.ffn_up")
    if tower.is_gated:
        gate = graph.node("Swish", (_product(graph, data, f"{at}.ffn_gate"),), f"{at}.ffn_act")
        up = graph.node("Mul", (gate, up), f"{at}.ffn_gated")
    else:
        up = graph.node("Gelu", (up,), f"{at}.ffn_act")
    return graph.node("Add", (state, _product(graph, up, f"{at}.ffn_down")), f"{at}.ffn_add")


def _project(graph: ModelGraph, tower: VisionTower, state: str, n_patches: int) -> str:
    """From patches to tokens of the language model: several patches are one token."""
    merged = n_patches // tower.n_tokens
    if graph.has("mm.input_projection.weight"):  # gemma 3 averages squares of patches
        shape = graph.integers("mm.squares", 0, tower.n_tokens, merged, tower.hidden)
        state = graph.node("Reshape", (state, shape), "mm.of_squares")
        axes = graph.integers("mm.axes", 2)
        state = graph.node("ReduceMean", (state, axes), "mm.mean", {"keepdims": 0})
        return _product(graph, _norm(graph, state, "mm.soft_emb_norm"), "mm.input_projection")
    if merged > 1:
        shape = graph.integers("mm.squares", 0, tower.n_tokens, merged * tower.hidden)
        state = graph.node("Reshape", (state, shape), "mm.of_squares")
    state = _product(graph, state, "mm.0")
    if graph.has("mm.2.weight"):
        state = _product(graph, graph.node("Gelu", (state,), "mm.act"), "mm.2")
    return state
