"""Mixes of formats against the published sizes of files that llama-quantize made."""

from __future__ import annotations

import pytest

from mansard.core.errors import UsageError
from mansard.estimator.language.architecture import Architecture
from mansard.estimator.language.catalogue import architecture
from mansard.estimator.language.mixes import with_format

# GB (10⁹ bytes) as the pages of the files show them, of models and whether an importance matrix
# was used.
PUBLISHED = {
    # bartowski/Meta-Llama-3.1-8B-Instruct-GGUF
    ("llama-3.1-8b", True): "Q8_0 8.54 Q6_K 6.60 Q5_K_M 5.73 Q5_K_S 5.60 Q4_K_M 4.92 Q4_K_S 4.69"
    " IQ4_XS 4.45 Q3_K_L 4.32 Q3_K_M 4.02 IQ3_M 3.78 Q3_K_S 3.66 IQ3_XS 3.52 Q2_K 3.18 IQ2_M 2.95",
    # bartowski, of a Llama 3.1 with 70 billion parameters
    ("llama-3.3-70b", True): "Q8_0 74.98 Q6_K 57.89 Q5_K_M 49.95 Q5_K_S 48.66 Q4_K_M 42.52"
    " Q4_K_S 40.35 Q4_0 40.12 IQ4_XS 37.90 Q3_K_L 37.14 Q3_K_M 34.27 IQ3_M 31.94 Q3_K_S 30.91",
    # mradermacher/phi-4-GGUF and phi-4-i1-GGUF: queries, keys and values are one matrix
    ("phi-4", False): "IQ4_XS 8.01 Q2_K 5.55 Q3_K_L 7.93 Q3_K_M 7.36 Q3_K_S 6.50 Q4_K_M 9.05"
    " Q4_K_S 8.44 Q5_K_M 10.6 Q5_K_S 10.2 Q6_K 12.0 Q8_0 15.6",
    ("phi-4", True): "IQ1_M 3.60 IQ1_S 3.32 IQ2_M 5.11 IQ2_S 4.73 IQ2_XS 4.49 IQ2_XXS 4.07"
    " IQ3_M 6.91 IQ3_XS 6.25 IQ3_XXS 5.85 IQ4_NL 8.38 IQ4_XS 7.94 Q2_K_S 5.18 Q4_0 8.41 Q4_1 9.27",
    # mradermacher/Mixtral-8x7B-v0.1-GGUF: 8 experts
    ("mixtral-8x7b", False): "IQ3_M 21.4 IQ3_S 20.4 IQ3_XS 19.4 IQ4_XS 25.4 Q2_K 17.3 Q3_K_L 24.2"
    " Q3_K_M 22.5 Q3_K_S 20.4 Q4_K_M 28.4 Q4_K_S 26.7 Q5_K_M 33.2 Q5_K_S 32.2 Q6_K 38.4",
    # mradermacher/DeepSeek-V2-Lite-GGUF: rows of 1408 weights are no whole blocks of 256
    ("deepseek-v2-lite", False): "IQ3_M 7.55 IQ3_S 7.49 IQ3_XS 7.12 IQ4_XS 8.65 Q2_K 6.43"
    " Q3_K_L 8.46 Q3_K_M 8.13 Q3_K_S 7.49 Q4_K_M 10.4 Q4_K_S 9.53 Q5_K_M 11.9 Q5_K_S 11.1"
    " Q6_K 14.1 Q8_0 16.7 F16 31.4",
    # bartowski/gemma-2-2b-it-GGUF: the embedding is the output
    ("gemma-2-2b", True): "IQ4_XS 1.57 Q4_K_M 1.71 Q4_K_S 1.64 Q5_K_M 1.92 Q5_K_S 1.88 Q6_K 2.15"
    " Q8_0 2.78",
    # bartowski/Qwen2.5-0.5B-Instruct-GGUF: 896 wide, no whole blocks of 256
    ("qwen2.5-0.5b", True): "Q3_K_M 0.355 Q3_K_S 0.338 Q4_K_M 0.398 Q4_K_S 0.385",
    # bartowski/Qwen2.5-3B-Instruct-GGUF
    ("qwen2.5-3b", True): "Q4_K_M 1.93",
}
_CASES = [
    (model, has_imatrix, mix, size)
    for (model, has_imatrix), table in PUBLISHED.items()
    for mix, size in zip(table.split()[::2], table.split()[1::2], strict=True)
]
_HEADER_GB = 0.013  # a file has its vocabulary too: 6 MB of qwen's, 8 of llama 3's, 9 of gemma's


def n_bytes(model: Architecture) -> int:
    return sum(weight.n_bytes for weight in model.weights.values())


@pytest.mark.parametrize(("model", "has_imatrix", "mix", "size"), _CASES)
def test_a_mix_has_the_published_size(model: str, has_imatrix: bool, mix: str, size: str) -> None:
    quantized = with_format(architecture(model), mix, has_imatrix=has_imatrix)
    last_digit = 10 ** -len(size.partition(".")[2])
    missing = float(size) - n_bytes(quantized) / 1e9
    assert -last_digit / 2 <= missing <= last_digit / 2 + _HEADER_GB


def test_formats_of_single_tensors() -> None:
    model = with_format(architecture("llama-3.1-8b"), "q4_k_m")
    formats = {name: weight.format for name, weight in model.weights.items()}
    # 32 blocks: the first 4 and the last 4 have more bits, and each third between: 6, 9 … 27.
    more = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    for kind in ("attn_v", "ffn_down"):
        of_kind = [formats[f"blk.{index}.{kind}.weight"] for index in range(32)]
        assert [index for index, form in enumerate(of_kind) if form == "Q6_K"] == more
        assert set(of_kind) == {"Q4_K", "Q6_K"}
    outside = ("token_embd.weight", "output.weight")
    assert [formats[name] for name in outside] == ["Q4_K", "Q6_K"]
    assert formats["blk.0.attn_norm.weight"] == "fp32"


def test_quantisers_of_hugging_face_models_leave_the_rest() -> None:
    plain = architecture("llama-3.1-8b")
    model = with_format(plain, "AWQ")
    for name in ("token_embd.weight", "output.weight", "blk.3.attn_norm.weight"):
        assert model.weights[name] == plain.weights[name]
    up = model.weights["blk.3.ffn_up.weight"]
    # Each 128 weights: 64 bytes, a scale of 2 bytes, a zero point of half a byte.
    assert up.n_bytes == 14336 * 32 * 133 // 2
    assert up.compute == "fp16"


@pytest.mark.parametrize(
    ("model", "form", "size_gb"),
    [
        # hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4: files of 4.68 and 1.05 GB
        ("llama-3.1-8b", "AWQ", 5.73),
        # nvidia/Llama-3.1-8B-Instruct-FP8: 5.00 and 4.08
        ("llama-3.1-8b", "FP8", 9.08),
    ],
)
def test_published_sizes_of_hugging_face_models(model: str, form: str, size_gb: float) -> None:
    quantized = with_format(architecture(model), form)
    assert n_bytes(quantized) / 1e9 == pytest.approx(size_gb, abs=0.005)


def test_an_unknown_format_names_those_that_are_known() -> None:
    with pytest.raises(UsageError, match=r"'Q4_K_X' is unknown; use one of Q4_0, Q4_1"):
        with_format(architecture("qwen2.5-0.5b"), "Q4_K_X")
