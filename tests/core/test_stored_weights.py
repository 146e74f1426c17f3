"""Names of stored weights, as people and tools write them."""

from __future__ import annotations

import pytest

from mansard.core.precision import PRECISIONS
from mansard.core.weight_formats import WEIGHT_FORMATS, stored_weights


@pytest.mark.parametrize(
    ("text", "name", "main", "is_mix"),
    [
        ("Q4_K_M", "Q4_K_M", "Q4_K", True),
        ("Q4_K - Medium", "Q4_K_M", "Q4_K", True),
        ("q5_k - small", "Q5_K_S", "Q5_K", True),
        ("Q2_K - Medium", "Q2_K", "Q2_K", False),
        ("IQ2_XXS - 2.0625 bpw", "IQ2_XXS", "IQ2_XXS", False),
        ("IQ3_S mix - 3.66 bpw", "IQ3_M", "IQ3_S", True),
        ("IQ2_M - 2.7 bpw", "IQ2_M", "IQ2_S", True),
        ("gguf_Q8_0", "Q8_0", "Q8_0", False),
        ("MXFP4 MoE", "MXFP4_MOE", "MXFP4", True),
        ("nvfp4", "NVFP4", "NVFP4", False),
        ("F16", "fp16", "fp16", False),
    ],
)
def test_a_name_is_a_format_or_a_mix(text: str, name: str, main: str, is_mix: bool) -> None:
    weights = stored_weights(text)
    assert weights is not None
    assert (weights.name, weights.main.name, weights.is_mix) == (name, main, is_mix)


@pytest.mark.parametrize("text", ["AWQ", "gptq", "AWQ INT4", "int4_awq", "w4a16", "GPTQ 4bit"])
def test_awq_and_gptq_are_4_bits_in_groups_of_128(text: str) -> None:
    weights = stored_weights(text)
    assert weights is not None
    # 128 weights of 4 bits, a scale of 16 bits, a zero point of 4: 532 bits.
    assert weights.main.n_bits == 532 / 128
    assert weights.main.compute == "fp16"


@pytest.mark.parametrize("text", ["", "Q9_K", "Q4_K_XXL", "IQ2", "fast", "AWQQ", " - Medium"])
def test_other_names_are_none(text: str) -> None:
    assert stored_weights(text) is None


def test_every_format_is_known_by_its_name_and_computes_in_a_precision() -> None:
    for one in WEIGHT_FORMATS.values():
        weights = stored_weights(one.name)
        assert weights is not None
        assert weights.main == one
        assert one.compute in PRECISIONS
