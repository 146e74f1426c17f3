"""Mixes of formats: which format each tensor gets when a model is quantised.

llama.cpp names a whole file after the format of most of its tensors, and gives others more bits:
the output, some of the values and of the feed-forward. The rules are those of
``llama_tensor_get_type`` of ``src/llama-quant.cpp``, as files of 2024 and 2025 were made (commit
8784689f of https://github.com/ggml-org/llama.cpp); a test holds them against published sizes.

Quantisers of Hugging Face models store all matrices of the blocks in one format, and leave the
rest as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from mansard.core.errors import UsageError
from mansard.core.weight_formats import WEIGHT_FORMATS, WeightFormat, grouped_format
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.tensors import VISION, is_linear, stored

#: The format that most tensors of a file get, by the file's mix: ``llama_ftype``.
GGUF_MIXES: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q6_K", "Q2_K")},
        **{f"Q3_K_{size}": "Q3_K" for size in "SML"},
        **{f"Q{bits}_K_{size}": f"Q{bits}_K" for bits in (4, 5) for size in "SM"},
        **{name: name for name in ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ3_S")},
        **{name: name for name in ("IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0")},
        "Q2_K_S": "Q2_K",
        "IQ2_S": "IQ2_XS",
        "IQ2_M": "IQ2_S",
        "IQ3_XS": "IQ3_S",
        "IQ3_M": "IQ3_S",
        "MXFP4_MOE": "MXFP4",
        "F32": "fp32",
        "F16": "fp16",
        "BF16": "bf16",
    }
)

#: Formats of all matrices of the blocks, by the name that they are asked for.
LINEAR_FORMATS: Mapping[str, WeightFormat] = MappingProxyType(
    {
        "AWQ": grouped_format(4, 128, has_zeros=True),
        "GPTQ": grouped_format(4, 128, has_zeros=True),
        "NVFP4": WEIGHT_FORMATS["NVFP4"],
        "MXFP4": WEIGHT_FORMATS["MXFP4"],
        "FP8": WEIGHT_FORMATS["FP8"],
    }
)

# What a row gets that is not whole blocks of 256.
_SMALL_BLOCKS = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S"), "IQ4_NL"),
    **dict.fromkeys(("IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
_NEEDS_IMATRIX = frozenset({"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "Q2_K_S"})
_ONE_AND_TWO_BITS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M")
_IN_BLOCK = re.compile(r"blk\.(\d+)\.(.*)\.weight")
_EMBEDDING = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS"), "Q2_K"),
    **dict.fromkeys(("IQ2_S", "IQ2_M", "IQ3_XXS"), "IQ3_S"),
    "TQ1_0": "Q4_K",
    "TQ2_0": "Q4_K",
}


class _Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tensor is: in block ``index`` of ``n_blocks``, of which kind of model."""

    index: int
    n_blocks: int
    n_shared: int  # heads of queries that share keys and values
    n_experts: int
    has_imatrix: bool

    @property
    def is_first_eighth(self) -> bool:
        return self.index < self.n_blocks // 8

    @property
    def is_important(self) -> bool:
        """The first and the last eighth, and every third block between them."""
        eighth = self.n_blocks // 8
        is_outer = self.is_first_eighth or self.index >= 7 * self.n_blocks // 8
        return is_outer or (self.index - eighth) % 3 == 2


def _always(_place: _Place) -> bool:
    return True


def _is_grouped(place: _Place) -> bool:
    return place.n_shared >= 4


def _is_first_eighth(place: _Place) -> bool:
    return place.is_first_eighth


def _is_important(place: _Place) -> bool:
    return place.is_important


def _is_between(place: _Place) -> bool:
    return place.n_blocks // 8 <= place.index < 7 * place.n_blocks // 8


def _has_eight_experts(place: _Place) -> bool:
    return place.n_experts == 8


class _Rule(msgspec.Struct, frozen=True):
    """Tensors of one kind get ``form`` in these mixes, where ``holds``; the first rule counts."""

    mixes: tuple[str, ...]
    form: str
    holds: Callable[[_Place], bool] = _always


_OLD = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0")  # one format throughout
_TWO_BITS = ("IQ2_S", "IQ2_M")
_MORE_BITS = tuple(name for name in GGUF_MIXES if name not in _ONE_AND_TWO_BITS)
_IQ3_XS = (_Rule(("IQ3_XS",), "IQ3_XXS", _is_between),)
_RULES: Mapping[str, tuple[_Rule, ...]] = {
    "attn_v": (
        _Rule(_ONE_AND_TWO_BITS, "Q4_K", lambda at: at.n_shared >= 4 or at.n_experts >= 4),
        _Rule(_TWO_BITS, "IQ3_S"),
        _Rule(_ONE_AND_TWO_BITS, "Q2_K"),
        _Rule(_MORE_BITS, "Q8_0", _has_eight_experts),
        _Rule(("Q2_K", "Q2_K_S", "IQ3_XXS", "IQ3_XS", "IQ3_S"), "Q4_K", _is_grouped),
        _Rule(("Q2_K",), "Q3_K"),
        _Rule(("IQ3_XXS",), "IQ3_S", lambda at: not at.has_imatrix),
        _Rule(("Q3_K_M",), "Q5_K", lambda at: at.index < 2),
        _Rule(("Q3_K_M", "IQ3_M"), "Q4_K"),
        _Rule(("Q3_K_L",), "Q5_K"),
        _Rule(("IQ4_NL", "IQ4_XS"), "Q5_K", _is_grouped),
        _Rule(("Q4_K_M", "Q5_K_M"), "Q6_K", _is_important),
        _Rule(("Q4_K_S",), "Q5_K", lambda at: at.index < 4),
    ),
    "attn_k": (
        _Rule(_ONE_AND_TWO_BITS, "Q4_K", _has_eight_experts),
        _Rule(_MORE_BITS, "Q8_0", _has_eight_experts),
        _Rule(("IQ3_XS",), "IQ3_XXS"),
        _Rule(("IQ3_XXS",), "IQ2_S"),
    ),
    "attn_q": (_Rule(("IQ3_XS",), "IQ3_XXS"), _Rule(("IQ3_XXS",), "IQ2_S")),
    "attn_qkv": (
        _Rule(("Q3_K_M", "Q3_K_L", "IQ3_M"), "Q4_K"),
        _Rule(("Q4_K_M",), "Q5_K"),
        _Rule(("Q5_K_M",), "Q6_K"),
    ),
    "attn_output": (
        _Rule(
            tuple(set(GGUF_MIXES) - {"Q2_K_S", "Q3_K_L", "Q5_K_S", "Q5_K_M", "Q6_K", *_OLD}),
            "Q5_K",
            _has_eight_experts,
        ),
        _Rule(("IQ1_S", "IQ1_M"), "IQ2_XXS"),
        _Rule((*_TWO_BITS, "IQ3_XXS"), "IQ3_S"),
        _Rule(("Q2_K",), "Q3_K"),
        _Rule(("Q3_K_M", "IQ3_M"), "Q4_K"),
        _Rule(("Q3_K_L",), "Q5_K", lambda at: at.n_experts != 8),
    ),
    "ffn_down": (
        _Rule(_TWO_BITS, "IQ3_S", _is_first_eighth),
        _Rule(_ONE_AND_TWO_BITS, "Q2_K", _is_first_eighth),
        _Rule(("Q2_K",), "Q3_K"),
        _Rule(("Q2_K_S",), "Q4_K", _is_first_eighth),
        _Rule(("IQ3_XXS",), "Q4_K", lambda at: at.is_first_eighth and not at.has_imatrix),
        _Rule(("IQ3_XXS",), "Q3_K", lambda at: not at.has_imatrix),
        _Rule(("Q3_K_M",), "Q5_K", lambda at: at.index < at.n_blocks // 16),
        _Rule(("Q3_K_M",), "Q4_K"),
        _Rule(("IQ3_M",), "Q4_K", _is_first_eighth),
        _Rule(("IQ3_M",), "Q4_K", lambda at: at.n_experts == 8 and at.is_important),
        _Rule(("Q3_K_L",), "Q5_K"),
        _Rule(("Q4_K_M", "Q5_K_M"), "Q6_K", _is_important),
        _Rule(("IQ4_NL", "IQ4_XS"), "Q5_K", lambda at: at.is_first_eighth and not at.has_imatrix),
        _Rule(("Q4_K_S",), "Q5_K", _is_first_eighth),
        _Rule(("Q4_0",), "Q4_1", lambda at: at.is_first_eighth and at.has_imatrix),
        _Rule(("Q5_0",), "Q5_1", lambda at: at.is_first_eighth and at.has_imatrix),
    ),
    "ffn_gate": _IQ3_XS,
    "ffn_up": _IQ3_XS,
}


def with_format(
    architecture: Architecture, name: str, *, has_imatrix: bool = False
) -> Architecture:
    """The model as it is stored in ``name``: a mix of llama.cpp, or a format of all matrices.

    ``has_imatrix``: the quantiser knew which weights matter; some mixes then have fewer bits.
    Raises UsageError for another name.
    """
    known = {mix.casefold(): mix for mix in (*GGUF_MIXES, *LINEAR_FORMATS)}
    mix = known.get(name.casefold())
    if mix is None:
        raise UsageError(
            f"the format {name!r} is unknown", fix=f"use one of {', '.join(known.values())}"
        )
    if mix in GGUF_MIXES:
        imatrix = has_imatrix or mix in _NEEDS_IMATRIX
        forms = dict(_mixed(architecture, mix, has_imatrix=imatrix))
    else:
        weights = architecture.weights.items()
        forms = {
            tensor: LINEAR_FORMATS[mix]
            for tensor, weight in weights
            if is_linear(tensor, weight.shape)
        }
    return msgspec.structs.replace(
        architecture,
        weights={
            tensor: stored(weight.shape, forms[tensor]) if tensor in forms else weight
            for tensor, weight in architecture.weights.items()
        },
    )


def _mixed(
    architecture: Architecture, mix: str, *, has_imatrix: bool
) -> Iterator[tuple[str, WeightFormat]]:
    """The format of every tensor of the language model; towers are files of their own."""
    attention = architecture.blocks[0].attention
    place = _Place(
        index=0,
        n_blocks=len(architecture.blocks),
        n_shared=attention.n_heads // attention.n_kv_heads,
        n_experts=max(one.experts.n_experts if one.experts else 0 for one in architecture.blocks),
        has_imatrix=has_imatrix,
    )
    plain = WEIGHT_FORMATS[GGUF_MIXES[mix]]
    for name, weight in architecture.weights.items():
        if name.startswith(VISION):
            continue
        if len(weight.shape) < 2 or not name.endswith(".weight") or "ffn_gate_inp" in name:
            yield name, WEIGHT_FORMATS["fp32"]
        elif not plain.is_quantized:
            yield name, plain
        else:
            match = _IN_BLOCK.fullmatch(name)
            if match is None:
                form = _outside(name, mix, is_output=architecture.is_tied)
            elif mix == "MXFP4_MOE":
                form = "MXFP4" if len(weight.shape) == 3 else "Q8_0"
            else:
                at = msgspec.structs.replace(place, index=int(match[1]))
                form = _inside(match[2], mix, at)
            yield name, _whole_blocks(weight.shape[-1], form)


def _outside(name: str, mix: str, *, is_output: bool) -> str:
    """The format of the embedding, which may be the output too, or of the output."""
    if name == "token_embd.weight" and not is_output:
        return "Q8_0" if mix == "MXFP4_MOE" else _EMBEDDING.get(mix, GGUF_MIXES[mix])
    if mix in {*_ONE_AND_TWO_BITS, "IQ3_XXS"}:
        return "Q5_K"
    return "Q8_0" if mix in {"Q8_0", "MXFP4_MOE"} else "Q6_K"


def _inside(part: str, mix: str, place: _Place) -> str:
    """The format of a matrix of a block; those of experts are called ``ffn_down_exps``."""
    kind = part if part.startswith("attn") else "_".join(part.split("_")[:2])
    rules = _RULES.get(kind, ())
    form = next(
        (rule.form for rule in rules if mix in rule.mixes and rule.holds(place)), GGUF_MIXES[mix]
    )
    # Models of 80 blocks whose heads share values: those are an eighth of the queries.
    is_70b = place.n_blocks == 80 and place.n_shared > 1 and mix not in _ONE_AND_TWO_BITS
    return "Q5_K" if kind == "attn_v" and is_70b and form in {"Q3_K", "Q4_K"} else form


def _whole_blocks(row: int, form: str) -> WeightFormat:
    """``form``, or what takes its place where a row is not whole blocks."""
    for name in (form, _SMALL_BLOCKS.get(form, "fp16")):
        if row % WEIGHT_FORMATS[name].block_elements == 0:
            return WEIGHT_FORMATS[name]
    return WEIGHT_FORMATS["fp16"]
