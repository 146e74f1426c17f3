"""Folders of Hugging Face's: bytes by config.json alone, and by the headers of safetensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.estimator.language.reading import read_language_model
from tests.estimator.language.hub_files import (
    Parts,
    tensors_of,
    write_config,
    write_safetensors,
)
from tests.estimator.language.small_configs import CASES, config

ROWS, COLUMNS = 512, 256  # of blk.1.ffn_up.weight
UP = "blk.1.ffn_up.weight"


def _awq(rows: int, columns: int) -> Parts:
    groups = columns // 128
    return {
        "qweight": ("I32", (columns, rows // 8)),
        "qzeros": ("I32", (groups, rows // 8)),
        "scales": ("F16", (groups, rows)),
    }


def _gptq(rows: int, columns: int) -> Parts:
    return {**_awq(rows, columns), "g_idx": ("I32", (columns,))}


def _packed(rows: int, columns: int) -> Parts:
    return {
        "weight_packed": ("I32", (rows, columns // 8)),
        "weight_scale": ("BF16", (rows, columns // 128)),
        "weight_shape": ("I64", (2,)),
    }


def _int8(rows: int, columns: int) -> Parts:
    return {"weight": ("I8", (rows, columns)), "weight_scale": ("BF16", (rows, 1))}


def _fp8(rows: int, columns: int) -> Parts:
    scales = -(-rows // 128), -(-columns // 128)
    return {"weight": ("F8_E4M3", (rows, columns)), "weight_scale_inv": ("F32", scales)}


def _nvfp4_of_modelopt(rows: int, columns: int) -> Parts:
    return {
        "weight": ("U8", (rows, columns // 2)),
        "weight_scale": ("F8_E4M3", (rows, columns // 16)),
        "weight_scale_2": ("F32", ()),
        "input_scale": ("F32", ()),
    }


def _nvfp4_of_vllm(rows: int, columns: int) -> Parts:
    return {
        "weight_packed": ("U8", (rows, columns // 2)),
        "weight_scale": ("F8_E4M3", (rows, columns // 16)),
        "weight_global_scale": ("F32", (1,)),
    }


def _nf4(rows: int, columns: int) -> Parts:
    return {
        "weight": ("U8", (rows * columns // 2, 1)),
        "weight.absmax": ("F32", (rows * columns // 64,)),
        "weight.quant_map": ("F32", (16,)),
        "weight.quant_state.bitsandbytes__nf4": ("U8", (78,)),
    }


def _weights_of(**weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head", "re:.*mlp\\.gate$"],
    }


# The quantisation config, the parts of a matrix, the format, bytes of 512 × 256 weights by hand:
# what config.json implies, and what the parts that it does not imply add.
QUANTIZED: dict[str, tuple[dict[str, Any], Callable[[int, int], Parts], str, int, int]] = {
    # Groups of 128: 64 bytes, 2 of the scale, half a byte of the zero point.
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128}, _awq, "INT4_G128", 68096, 0),
    # And the group of each column, which only an activation order needs.
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True},
        _gptq,
        "INT4_G128",
        68096,
        1024,
    ),
    "int4": (
        _weights_of(num_bits=4, type="int", strategy="group", group_size=128, symmetric=True),
        _packed,
        "INT4_G128_SYM",
        512 * 2 * 66,
        16,
    ),
    "int8": (
        _weights_of(num_bits=8, type="int", strategy="channel", symmetric=True),
        _int8,
        "INT8_G256_SYM",
        512 * 258,
        0,
    ),
    # 4 × 2 scales of blocks of 128 × 128.
    "fp8": ({"quant_method": "fp8", "weight_block_size": [128, 128]}, _fp8, "FP8", 131072, 32),
    # Groups of 16: 8 bytes and a scale of one. Two more scales of 4 bytes.
    "nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        _nvfp4_of_modelopt,
        "NVFP4",
        73728,
        8,
    ),
    "nvfp4 of vllm": (
        _weights_of(num_bits=4, type="float", strategy="tensor_group", group_size=16),
        _nvfp4_of_vllm,
        "NVFP4",
        73728,
        4,
    ),
    # Blocks of 64: 32 bytes and a scale of 4. The table of 16 numbers, and 78 bytes of text.
    "bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        _nf4,
        "NF4",
        73728,
        142,
    ),
}


@pytest.mark.parametrize("case", QUANTIZED)
def test_quantised_weights(case: str, tmp_path: Path) -> None:
    stated, parts, form, implied, more = QUANTIZED[case]
    sizes = config("llama", quantization_config=stated)
    folder = write_config(tmp_path / case, sizes)
    by_config = read_language_model(folder)
    assert (by_config.weights[UP].format, by_config.weights[UP].n_bytes) == (form, implied)
    assert by_config.weights["output.weight"].format == "bf16"
    write_safetensors(folder / "model.safetensors", tensors_of(sizes, parts))
    by_tensors = read_language_model(folder)
    up = by_tensors.weights[UP]
    assert (up.format, up.n_bytes) == (form, implied + more)
    assert (up.compute, up.unpack_ops) == (
        by_config.weights[UP].compute,
        by_config.weights[UP].unpack_ops,
    )
    assert by_tensors.weights["output.weight"] == by_config.weights["output.weight"]


@pytest.mark.parametrize("case", CASES)
def test_a_folder_with_and_without_safetensors(case: str, tmp_path: Path) -> None:
    sizes = config(case.split(maxsplit=1)[0], **CASES[case])
    folder = write_config(tmp_path / "model", sizes)
    by_config = read_language_model(folder)
    write_safetensors(folder / "model.safetensors", tensors_of(sizes))
    assert read_language_model(folder) == by_config


def test_modelopt_says_the_quantisation_in_a_file_of_its_own(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", config("llama"))
    stated = {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.0.mlp*"]}
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": stated}))
    weights = read_language_model(folder).weights
    assert weights[UP].format == "NVFP4"
    assert weights["blk.0.ffn_up.weight"].format == "bf16"
    assert weights["blk.0.attn_q.weight"].format == "NVFP4"


def _split(folder: Path, tensors: Parts) -> None:
    """Two files and their index."""
    halves = dict(list(tensors.items())[:9]), dict(list(tensors.items())[9:])
    names: dict[str, str] = {}
    for number, half in enumerate(halves, 1):
        file = f"model-0000{number}-of-00002.safetensors"
        write_safetensors(folder / file, half)
        names |= dict.fromkeys(half, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


def test_several_files(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", config("llama"))
    by_config = read_language_model(folder)
    _split(folder, tensors_of(config("llama")))
    assert read_language_model(folder) == by_config
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match=r"1 of its 2 safetensors files are missing, first model-"):
        read_language_model(folder)
    (folder / "model-00001-of-00002.safetensors").unlink()  # the index alone was fetched
    assert read_language_model(folder) == by_config


def test_blocks_that_predict_further_tokens_are_not_loaded(tmp_path: Path) -> None:
    sizes = config("deepseek_v3", **CASES["deepseek_v3"])
    folder = write_config(tmp_path / "model", sizes)
    by_config = read_language_model(folder)
    more: Parts = {"model.layers.2.mlp.gate.weight": ("BF16", (4, 256))}
    write_safetensors(folder / "model.safetensors", tensors_of(sizes) | more)
    assert read_language_model(folder) == by_config


def _broken(folder: Path, what: str) -> None:
    index = folder / "model.safetensors.index.json"
    one = folder / "model.safetensors"
    plain = tensors_of(config("llama"))
    up = "model.layers.0.mlp.up_proj.weight"
    writes: dict[str, Callable[[], object]] = {
        "cut": lambda: write_safetensors(one, plain, cut=1),
        "cut header": lambda: one.write_bytes((1 << 40).to_bytes(8, "little") + b"{"),
        "empty": lambda: one.write_bytes(b""),
        "no JSON": lambda: one.write_bytes((4).to_bytes(8, "little") + b"{{{{"),
        "no UTF-8": lambda: one.write_bytes((5).to_bytes(8, "little") + b'{"\xff":'),
        "many": lambda: one.write_bytes(
            (3 + (10 << 18)).to_bytes(8, "little") + b"{" + b'"abcd":{},' * (1 << 18) + b"}}"
        ),
        "missing": lambda: write_safetensors(one, {k: v for k, v in plain.items() if k != up}),
        "other sizes": lambda: write_safetensors(one, plain | {up: ("BF16", (512, 128))}),
        "elsewhere": lambda: index.write_text('{"weight_map": {"a": "../other.safetensors"}}'),
        "no map": lambda: index.write_text('{"weight_map": [1]}'),
        "two files": lambda: list(
            map(Path.touch, (folder / "a.safetensors", folder / "b.safetensors"))
        ),
    }
    writes[what]()


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("cut", r"model\.safetensors is cut: it has \d+ bytes"),
        ("cut header", r"model\.safetensors is cut: it ends within its header"),
        ("empty", r"model\.safetensors is cut: it ends within its header"),
        ("no JSON", r"the header of model\.safetensors is broken"),
        ("no UTF-8", r"the header of model\.safetensors is broken: 'utf-8'"),
        ("many", r"model\.safetensors has more than 262144 tensors"),
        ("missing", r"have no weight 'blk\.0\.ffn_up\.weight'"),
        (
            "other sizes",
            r"'blk\.0\.ffn_up\.weight', by its sizes \[512, 256\]: it has 131072 bytes",
        ),
        ("elsewhere", r"names a file elsewhere"),
        ("no map", r"has no weight_map of file names"),
        ("two files", r"it has 2 safetensors files, and no model\.safetensors\.index\.json"),
    ],
)
def test_broken_files_are_one_line(what: str, expected: str, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", config("llama"))
    _broken(folder, what)
    with pytest.raises(ModelError, match=expected) as caught:
        read_language_model(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "config.json is not a JSON object"),
        ("[" * 100_000, "config.json is not a JSON object"),
        ("[]", "config.json is not a JSON object"),
        ('{"model_type": "\xff"}', "config.json is not a JSON object: 'utf-8'"),
        ("{}", "config.json has no model_type"),
        ('{"model_type": 3}', "model_type is not a text"),
        ('{"model_type": "mamba"}', "models of type 'mamba' are unknown; known are llama"),
        ('{"model_type": "llama"}', "num_hidden_layers is missing"),
    ],
)
def test_broken_configs_are_one_line(content: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(ModelError, match=expected) as caught:
        read_language_model(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_hidden_layers", 1 << 40, "num_hidden_layers is not"),
        ("num_hidden_layers", 5000, "num_hidden_layers is not at most 4096"),
        ("hidden_size", "4096", "hidden_size is not a positive integer"),
        ("hidden_size", -1, "hidden_size is not a positive integer"),
        ("vocab_size", True, "vocab_size is not a positive integer"),
        ("vocab_size", 1 << 60, "vocab_size is not at most 2147483648"),
        ("num_key_value_heads", 0, "num_key_value_heads is not a positive integer"),
        ("head_dim", -1, "head_dim is not an integer from 0"),
        ("num_key_value_heads", 3, "num_key_value_heads is not a divisor of the 4 heads"),
        ("hidden_act", "snake", "hidden_act is not one of silu"),
        ("torch_dtype", "int3", "dtype 'int3' is unknown"),
        ("torch_dtype", None, "config.json has no dtype"),
        ("quantization_config", {"quant_method": "eetq"}, "quant_method 'eetq' is unknown"),
        ("quantization_config", 7, "quantization_config is not an object"),
        (
            "quantization_config",
            {"quant_method": "awq", "bits": 5},
            "quantization_config.bits is not 2, 3, 4 or 8",
        ),
        (
            "quantization_config",
            {"quant_method": "fp8", "ignored_layers": ["re:(a+)+$"]},
            "the pattern .* which is not understood",
        ),
    ],
)
def test_fields_that_cannot_be(field: str, value: Any, expected: str, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", config("llama"), **{field: value})
    with pytest.raises(ModelError, match=expected):
        read_language_model(folder)


@pytest.mark.parametrize(
    "rope", [{"partial_rotary_factor": 0.75}, {"rope_parameters": {"partial_rotary_factor": 0.75}}]
)
def test_heads_that_are_rotated_in_part(rope: dict[str, Any], tmp_path: Path) -> None:
    read = read_language_model(write_config(tmp_path / "model", config("phi3"), **rope))
    assert read.blocks[0].attention.rotary_width == 48  # three quarters of 64


def test_windows_by_the_kinds_of_layers(tmp_path: Path) -> None:
    kinds = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 64}
    read = read_language_model(write_config(tmp_path / "model", config("gemma2"), **kinds))
    assert [block.attention.window for block in read.blocks] == [None, 64]


@pytest.mark.parametrize(
    ("fields", "windows"),
    [  # Transformers' qwen2: blocks from max_window_layers on, 28 by default
        ({"use_sliding_window": True, "max_window_layers": 0}, [64, 64]),
        ({"use_sliding_window": True, "max_window_layers": 1}, [None, 64]),
        ({"use_sliding_window": True}, [None, None]),
        ({"max_window_layers": 0}, [None, None]),
    ],
)
def test_windows_of_qwen(fields: dict[str, Any], windows: list[int | None], tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", config("qwen2"), sliding_window=64, **fields)
    assert [block.attention.window for block in read_language_model(folder).blocks] == windows


_SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)


@_SHARED
@given(field=st.sampled_from(sorted({**config("llama"), "quantization_config": 0})), value=_VALUES)
def test_any_value_of_a_field_is_read_or_refused(tmp_path: Path, field: str, value: Any) -> None:
    folder = write_config(tmp_path / "model", config("llama"), **{field: value})
    try:
        read_language_model(folder)
    except ModelError as error:
        assert "\n" not in str(error)  # noqa: PT017 - some values are fine


@_SHARED
@given(data=st.data())
def test_every_cut_is_one_line(tmp_path: Path, data: st.DataObject) -> None:
    folder = write_config(tmp_path / "model", config("llama"))
    file = folder / "model.safetensors"
    write_safetensors(file, tensors_of(config("llama")))
    whole = file.stat().st_size
    with file.open("r+b") as stream:
        stream.truncate(data.draw(st.integers(0, whole - 1)))
    with pytest.raises(ModelError) as caught:
        read_language_model(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the folder has no config\.json; give the whole folder"):
        read_language_model(tmp_path)
