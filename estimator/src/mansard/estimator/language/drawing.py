"""A language model drawn as a network: one graph for prefill and decode, as exporters write it.

Nodes are ONNX's and ONNX Runtime's operators; those of ``operators.contrib.language`` multiply
weights in formats that ONNX does not have. Inputs and caches have the names of Hugging Face's
exports, so that ``decoding.with_stage`` finds new and cached tokens as in any decoder.

Of a prompt only the last token's scores are computed, as llama.cpp, vLLM and TensorRT-LLM do.
"""

from __future__ import annotations

from mansard.estimator.language.architecture import (
    AttentionSizes,
    DecoderBlock,
    ExpertSizes,
)
from mansard.estimator.language.encoder import draw_encoder
from mansard.estimator.language.graph import (
    BATCH,
    MICROSOFT,
    OPSETS,
    PLAIN,
    TOKENS,
    DrawnModel,
    ModelGraph,
    stored_attributes,
)
from mansard.estimator.model import Dimension, Model, ModelInput
from mansard.estimator.numbers import ELEMENT_TYPES, UINT8, ElementType
from mansard.estimator.operators.contrib.language import DOMAIN

_PAST = "past_sequence"
_ALL, _ALL_OF_WINDOW = "total_sequence", "total_of_window"
_CONTEXT = 4096  # rows of the tables of cosines where the file does not say; few of them are read


def draw(drawn: DrawnModel) -> Model:
    """The network of a language model."""
    graph, model = ModelGraph(drawn), drawn.architecture
    state = _embed(graph)
    for number, block in enumerate(model.blocks):
        state = _block(graph, number, block, state)
    last = graph.node("Gather", (state, graph.integers("last", -1)), "last_token", {"axis": 1})
    last = graph.norm(last, "output_norm.weight", "output_norm")
    scores = graph.product(
        last, "token_embd.weight" if model.is_tied else "output.weight", "logits"
    )
    if model.has_output_softcap:
        scores = _softcap(graph, scores)
    notes = () if model.vision is None else draw_encoder(graph, model.vision)
    graph.outputs.insert(0, ModelInput(scores, graph.hidden, (BATCH, 1, model.vocabulary)))
    return Model(
        tuple(graph.nodes),
        tuple(graph.inputs),
        tuple(graph.outputs),
        graph.stored,
        OPSETS,
        notes=notes,
    )


def _embed(graph: ModelGraph) -> str:
    model = graph.model
    weight = model.weights["token_embd.weight"]
    table = graph.stored_as_is("token_embd.weight")
    if graph.is_packed("token_embd.weight"):
        state = graph.node(
            "GatherStored",
            (table, TOKENS),
            "token_embd",
            {
                **stored_attributes(graph, weight),
                "N": weight.shape[0],
                "K": weight.shape[1],
                "dtype": graph.hidden.code,
            },
            domain=DOMAIN,
        )
    else:
        state = graph.node("Gather", (table, TOKENS), "token_embd", {"axis": 0})
    if model.has_scaled_embedding:
        factor = graph.store("token_embd.scale", graph.hidden, ())
        state = graph.node("Mul", (state, factor), "token_embd.scaled")
    return state


def _softcap(graph: ModelGraph, scores: str) -> str:
    cap = graph.store("softcap", graph.hidden, ())
    scaled = graph.node("Div", (scores, cap), "logits.over_cap")
    bounded = graph.node("Tanh", (scaled,), "logits.tanh")
    return graph.node("Mul", (bounded, cap), "logits.capped")


def _block(graph: ModelGraph, number: int, block: DecoderBlock, state: str) -> str:
    """One decoder block: what attention and feed-forward add to ``state``."""
    at = f"blk.{number}"
    normed = graph.norm(state, f"{at}.attn_norm.weight", f"{at}.attn_norm")
    attend = _grouped if block.attention.latent is None else _latent
    added = attend(graph, number, block.attention, normed)
    added = graph.product(added, f"{at}.attn_output.weight", f"{at}.attn_output")
    if block.has_post_norms:
        added = graph.norm(added, f"{at}.post_attention_norm.weight", f"{at}.post_attention_norm")
    state = graph.node("Add", (state, added), f"{at}.attn_add")
    normed = graph.norm(state, f"{at}.ffn_norm.weight", f"{at}.ffn_norm")
    if block.experts is None:
        added = _feed_forward(graph, f"{at}.ffn", "", normed)
    else:
        added = _experts(graph, at, block.experts, normed)
    if block.has_post_norms:
        added = graph.norm(added, f"{at}.post_ffw_norm.weight", f"{at}.post_ffw_norm")
    return graph.node("Add", (state, added), f"{at}.ffn_add")


def _grouped(graph: ModelGraph, number: int, sizes: AttentionSizes, data: str) -> str:
    """Attention whose heads share keys and values in groups; its cache, rotation and norms."""
    at = f"blk.{number}"
    if graph.has(f"{at}.attn_qkv.weight"):
        projected = (graph.product(data, f"{at}.attn_qkv.weight", f"{at}.attn_qkv"), "", "")
    else:
        query, key, value = (
            graph.product(data, f"{at}.attn_{which}.weight", f"{at}.attn_{which}")
            for which in "qkv"
        )
        projected = query, key, value
    caches = tuple(_cache(graph, number, sizes, which) for which in ("key", "value"))
    tables = ["", ""]
    if half := sizes.rotary_width // 2:
        shape = (graph.model.context or _CONTEXT, half)
        tables = [
            graph.store(f"rotary.{name}.{half}", graph.hidden, shape) for name in ("cos", "sin")
        ]
    norms = (graph.vector(f"{at}.attn_{which}_norm.weight") for which in "qk")
    row_bytes = graph.cache.size_bytes(1, sizes.head_width) if graph.cache.is_quantized else 0
    return graph.node(
        "GroupQueryAttention",
        (*projected, *caches, "", "", *tables, *("",) * 5, *norms),
        f"{at}.attn",
        {
            "num_heads": sizes.n_heads,
            "kv_num_heads": sizes.n_kv_heads,
            "do_rotary": int(bool(sizes.rotary_width)),
            "softcap": 1.0 if sizes.has_softcap else 0.0,
            **({"local_window_size": sizes.window} if sizes.window else {}),
            **({"kv_row_bytes": row_bytes} if row_bytes else {}),
        },
        domain=MICROSOFT,
        outputs=(f"{at}.attn", f"present.{number}.key", f"present.{number}.value"),
    )


def _cache(graph: ModelGraph, number: int, sizes: AttentionSizes, which: str) -> str:
    """Declare the keys or values of earlier tokens; a window's have another length."""
    name, present = f"past_key_values.{number}.{which}", f"present.{number}.{which}"
    dtype, width = _row(graph, sizes.head_width)
    past, after = (_PAST, _ALL)
    if sizes.window is not None:
        past, after = f"past_window_{sizes.window}", _ALL_OF_WINDOW
    heads: tuple[Dimension, ...] = (BATCH, sizes.n_kv_heads)
    graph.inputs.append(ModelInput(name, dtype, (*heads, past, width)))
    graph.outputs.append(ModelInput(present, dtype, (*heads, after, width)))
    return name


def _row(graph: ModelGraph, width: int) -> tuple[ElementType, int]:
    """The type of a cache's elements, and how many of them a row of ``width`` numbers has."""
    if graph.cache.is_quantized:
        return UINT8, graph.cache.size_bytes(1, width)
    return ELEMENT_TYPES[PLAIN[graph.cache.name]], width


def _latent(graph: ModelGraph, number: int, sizes: AttentionSizes, data: str) -> str:
    """Multi-head latent attention over compressed rows."""
    at, latent = f"blk.{number}", sizes.latent
    assert latent is not None  # noqa: S101 - the caller has checked it
    if latent.query_rank is None:
        query = graph.product(data, f"{at}.attn_q.weight", f"{at}.attn_q")
    else:
        query = graph.product(data, f"{at}.attn_q_a.weight", f"{at}.attn_q_a")
        query = graph.norm(query, f"{at}.attn_q_a_norm.weight", f"{at}.attn_q_a_norm")
        query = graph.product(query, f"{at}.attn_q_b.weight", f"{at}.attn_q_b")
    rows = graph.product(data, f"{at}.attn_kv_a_mqa.weight", f"{at}.attn_kv_a_mqa")
    past, present = f"past_key_values.{number}.latent", f"present.{number}.latent"
    dtype, n_elements = _row(graph, latent.key_rank + latent.rotary_width)
    graph.inputs.append(ModelInput(past, dtype, (BATCH, _PAST, n_elements)))
    graph.outputs.append(ModelInput(present, dtype, (BATCH, _ALL, n_elements)))
    # One matrix, or one for keys and one for values.
    names = [f"{at}.attn_{which}_b.weight" for which in ("kv", "k", "v")]
    names = [name for name in names if graph.has(name)]
    matrices = [graph.stored_as_is(name) for name in names]
    norm = graph.vector(f"{at}.attn_kv_a_norm.weight")
    return graph.node(
        "LatentAttention",
        (query, rows, past, norm, *matrices),
        f"{at}.attn",
        {
            "num_heads": sizes.n_heads,
            "width": sizes.head_width - latent.rotary_width,
            "v_width": sizes.value_width,
            "rank": latent.key_rank,
            "rotary": latent.rotary_width,
            **stored_attributes(graph, *(graph.model.weights[name] for name in names)),
        },
        domain=DOMAIN,
        outputs=(f"{at}.attn", present),
    )


def _feed_forward(graph: ModelGraph, at: str, suffix: str, data: str) -> str:
    """down(activation(gate) · up), or down(activation(up)) without a gate.

    ``suffix``: "_shexp" for the experts that all tokens share.
    """
    up = graph.product(data, f"{at}_up{suffix}.weight", f"{at}_up{suffix}")
    if graph.has(f"{at}_gate{suffix}.weight"):
        gate = graph.product(data, f"{at}_gate{suffix}.weight", f"{at}_gate{suffix}")
    elif graph.model.is_gated:  # both stand in one matrix
        halves = f"{at}_gate{suffix}", f"{at}_up{suffix}.half"
        gate = graph.node("Split", (up,), halves[0], {"axis": -1, "num_outputs": 2}, outputs=halves)
        up = halves[1]
    else:
        gate = ""
    activated = _activation(graph, gate or up, f"{at}_act{suffix}")
    if gate:
        activated = graph.node("Mul", (activated, up), f"{at}_gated{suffix}")
    return graph.product(activated, f"{at}_down{suffix}.weight", f"{at}_down{suffix}")


def _activation(graph: ModelGraph, data: str, name: str) -> str:
    if graph.model.activation == "silu":
        return graph.node("Swish", (data,), name)
    if graph.model.activation == "relu2":
        positive = graph.node("Relu", (data,), f"{name}.relu")
        return graph.node("Mul", (positive, positive), name)
    approximate = "tanh" if graph.model.activation == "gelu_tanh" else "none"
    return graph.node("Gelu", (data,), name, {"approximate": approximate})


def _experts(graph: ModelGraph, at: str, sizes: ExpertSizes, data: str) -> str:
    """The experts that each token chooses, and those that all tokens share."""
    scores = graph.product(data, f"{at}.ffn_gate_inp.weight", f"{at}.ffn_gate_inp")
    names = [f"{at}.ffn_{which}_exps.weight" for which in ("gate", "up", "down")]
    made = graph.node(
        "ExpertsStored",
        (data, scores, *(graph.stored_as_is(name) for name in names)),
        f"{at}.ffn_exps",
        {
            "n_experts": sizes.n_experts,
            "n_active": sizes.n_active,
            "hidden": graph.model.hidden,
            "inner": sizes.width,
            "activation": graph.model.activation.partition("_")[0],
            **stored_attributes(graph, *(graph.model.weights[name] for name in names)),
        },
        domain=DOMAIN,
    )
    if not sizes.shared_width:
        return made
    shared = _feed_forward(graph, f"{at}.ffn", "_shexp", data)
    if graph.has(f"{at}.ffn_gate_inp_shexp.weight"):
        share = graph.product(data, f"{at}.ffn_gate_inp_shexp.weight", f"{at}.ffn_gate_inp_shexp")
        share = graph.node("Sigmoid", (share,), f"{at}.ffn_share_shexp")
        shared = graph.node("Mul", (shared, share), f"{at}.ffn_shared")
    return graph.node("Add", (made, shared), f"{at}.ffn_exps_add")
