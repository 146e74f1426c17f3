"""How weights of language models are stored: blocks of few bits, each with its scales.

A format says how many bytes a block of weights is, and in which precision runtimes multiply
what they unpack. It is no precision of work: see ``core/precision.py`` for those.

Sources. Blocks of ggml: the structures ``block_*`` of llama.cpp's ``ggml-common.h``, whose sizes
``gguf-py`` lists as ``GGML_QUANT_SIZES``. MXFP4: OCP Microscaling Formats 1.0, 32 numbers of E2M1
and a scale of E8M0. NVFP4: 16 numbers of E2M1 and a scale of E4M3 (NVIDIA, "Introducing NVFP4");
the second scale, one fp32 for each tensor, is below a thousandth and left out. NF4: QLoRA,
arXiv:2305.14314; of double quantised scales those of 256 blocks are left out likewise.

``unpack_ops``: operations of CUDA cores that make a number of a stored weight, counted by hand in
the functions ``dequantize_row_*`` of llama.cpp's ``ggml-quants.c``: each mask, shift, table
look-up, sign, sum and product is one. Factors of a whole block count as nothing.

``compute``: what the products run in. llama.cpp multiplies quantised blocks of ggml as int8 (its
activations are quantised to q8_1); kernels of AWQ and GPTQ unpack to fp16 (Marlin).
"""

from __future__ import annotations

import re
from types import MappingProxyType

import msgspec

from mansard.core.errors import UsageError


class WeightFormat(msgspec.Struct, frozen=True, kw_only=True):
    """One storage format. A row of weights is whole blocks."""

    name: str
    block_elements: int
    block_bytes: int
    compute: str  # a name of ``core.precision.PRECISIONS``
    unpack_ops: int

    @property
    def n_bits(self) -> float:
        """Bits of a weight, its share of the scales included."""
        return 8 * self.block_bytes / self.block_elements

    @property
    def is_quantized(self) -> bool:
        return self.unpack_ops > 0

    def size_bytes(self, n_rows: int, row_elements: int) -> int:
        """Bytes of ``n_rows`` rows, each of whole blocks."""
        return n_rows * -(-row_elements // self.block_elements) * self.block_bytes


def _plain(name: str, n_bytes: int) -> WeightFormat:
    return WeightFormat(
        name=name, block_elements=1, block_bytes=n_bytes, compute=name, unpack_ops=0
    )


def _blocks(
    name: str, elements: int, n_bytes: int, ops: int, compute: str = "int8"
) -> WeightFormat:
    return WeightFormat(
        name=name, block_elements=elements, block_bytes=n_bytes, compute=compute, unpack_ops=ops
    )


WEIGHT_FORMATS = MappingProxyType(
    {
        one.name: one
        for one in (
            *(_plain("fp32", 4), _plain("fp16", 2), _plain("bf16", 2), _plain("fp64", 8)),
            # A mask or shift, the offset, the scale.
            *(_blocks("Q4_0", 32, 18, 3), _blocks("Q4_1", 32, 20, 3)),
            # And the fifth bit: a mask, a shift, a sum.
            *(_blocks("Q5_0", 32, 22, 6), _blocks("Q5_1", 32, 24, 6)),
            *(_blocks("Q8_0", 32, 34, 1), _blocks("Q8_1", 32, 36, 1), _blocks("Q8_K", 256, 292, 1)),
            *(_blocks("Q2_K", 256, 84, 4), _blocks("Q3_K", 256, 110, 6)),
            *(_blocks("Q4_K", 256, 144, 3), _blocks("Q5_K", 256, 176, 6)),
            _blocks("Q6_K", 256, 210, 6),
            # A number of the grid, its sign (mask, choice, product), the scale.
            *(_blocks("IQ1_S", 256, 50, 3), _blocks("IQ1_M", 256, 56, 3)),
            *(_blocks("IQ2_XXS", 256, 66, 5), _blocks("IQ2_XS", 256, 74, 5)),
            *(_blocks("IQ2_S", 256, 82, 5), _blocks("IQ3_XXS", 256, 98, 5)),
            _blocks("IQ3_S", 256, 110, 5),
            *(_blocks("IQ4_NL", 32, 18, 3), _blocks("IQ4_XS", 256, 136, 3)),
            *(_blocks("TQ1_0", 256, 54, 5), _blocks("TQ2_0", 256, 66, 3)),
            _blocks("MXFP4", 32, 17, 3),
            # Of bitsandbytes: a scale of fp32 for each 64, or one of 8 bits ("double quantised").
            *(_blocks("NF4", 64, 36, 3, "fp16"), _blocks("NF4_DQ", 64, 33, 3, "fp16")),
            # The two that follow are multiplied by tensor cores as they are stored.
            _blocks("NVFP4", 16, 9, 1, "fp4"),
            _blocks("FP8", 1, 1, 1, "fp8"),
        )
    }
)


def grouped_format(
    n_bits: int, group: int, *, has_zeros: bool, scale_bytes: int = 2
) -> WeightFormat:
    """Integers of ``n_bits`` with a scale, and a zero point of as many bits, for each ``group``.

    AWQ and GPTQ store weights so: 4 bits, a scale of fp16 for each 128 weights of a column.
    """
    bits = 2 * (group * n_bits + 8 * scale_bytes + (n_bits if has_zeros else 0))
    # Two groups, so that two zero points of 4 bits are a whole byte.
    return WeightFormat(
        name=f"INT{n_bits}_G{group}" + ("" if has_zeros else "_SYM"),
        block_elements=2 * group,
        block_bytes=-(-bits // 8),
        compute="fp16",
        unpack_ops=3 if has_zeros else 2,
    )


def weight_format(name: str) -> WeightFormat:
    """The format called ``name``, in any case; raises UsageError with the known names."""
    for one in WEIGHT_FORMATS.values():
        if one.name.casefold() == name.casefold():
            return one
    raise UsageError(
        f"unknown weight format {name!r}", fix=f"use one of {', '.join(WEIGHT_FORMATS)}"
    )


class StoredWeights(msgspec.Struct, frozen=True, kw_only=True):
    """How the weights of a file are stored, by the name that its author gave.

    ``main``: the format of most weights. ``is_mix``: others are in the file too, as in Q4_K_M,
    which stores a part of the attention and the last layer as Q6_K.
    """

    name: str
    main: WeightFormat
    is_mix: bool


# Of ``llama_ftype`` in llama.cpp's ``llama.h``: mixes whose name is no block's.
_MIXES = MappingProxyType(
    {
        **{f"{base}_{size}": base for base in ("Q3_K", "Q4_K", "Q5_K") for size in "SM"},
        "Q2_K_S": "Q2_K",
        "Q3_K_L": "Q3_K",
        "IQ2_M": "IQ2_S",
        "IQ3_XS": "IQ3_S",
        "IQ3_M": "IQ3_S",
        "MXFP4_MOE": "MXFP4",
    }
)
_PLAIN_NAMES = MappingProxyType({"F16": "fp16", "F32": "fp32", "BF16": "bf16", "F64": "fp64"})
# As people write AWQ and GPTQ, whose groups are of 128 weights unless a file says another size.
_GROUPED = re.compile(r"(?:AWQ|GPTQ)(?:[_ ]?(?:INT4|4[_ ]?BIT))?|(?:INT4[_ ]?)(?:AWQ|GPTQ)|W4A16")
_TYPE = re.compile(r"(.+?) - (?:([SML])(?:MALL|EDIUM|ARGE)|[0-9.]+ BPW)")
_DEFAULT_GROUP = 128


def stored_weights(text: str) -> StoredWeights | None:
    """The weights that ``text`` names: Q4_K_M, "Q4_K - Medium", nvfp4, AWQ; None: no such name."""
    name = text.strip().upper().removeprefix("GGUF_")
    if (match := _TYPE.fullmatch(name)) is not None:  # as ``llama_model_ftype_name`` prints it
        is_mixed_i3 = match[1] == "IQ3_S MIX"
        name = "IQ3_M" if is_mixed_i3 else match[1] + (f"_{match[2]}" if match[2] else "")
        name = "Q2_K" if name == "Q2_K_M" else name
    name = "MXFP4_MOE" if name == "MXFP4 MOE" else _PLAIN_NAMES.get(name, name)
    if _GROUPED.fullmatch(name):
        main = grouped_format(4, _DEFAULT_GROUP, has_zeros=True)
        return StoredWeights(name=text.strip(), main=main, is_mix=False)
    if name in _MIXES:
        return StoredWeights(name=name, main=WEIGHT_FORMATS[_MIXES[name]], is_mix=True)
    known = next((one for one in WEIGHT_FORMATS.values() if one.name.upper() == name.upper()), None)
    return None if known is None else StoredWeights(name=known.name, main=known, is_mix=False)
