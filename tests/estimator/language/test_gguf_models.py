"""GGUF files written by llama.cpp's library, against the config.json of the same model."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import ModelError
from mansard.estimator.language.families import read_config
from mansard.estimator.language.gguf import read_header
from mansard.estimator.language.reading import read_language_model
from mansard.estimator.language.tensors import expected_shapes
from mansard.estimator.scoring import is_language_model
from tests.estimator.language.gguf_files import layout, write
from tests.estimator.language.small_configs import CASES, config

CASES = {**CASES, "deepseek_v2 old": {**CASES["deepseek_v2"], "is_old": True}}


@pytest.mark.parametrize("case", CASES)
def test_a_gguf_file_says_the_same_as_the_config(case: str, tmp_path: Path) -> None:
    sizes = config(case.split(maxsplit=1)[0], **CASES[case])
    read = read_language_model(write(tmp_path / "model.gguf", sizes))
    draft = read_config(sizes)
    assert msgspec.structs.replace(read, weights={}) == draft.architecture
    shapes = {name: weight.shape for name, weight in read.weights.items()}
    assert shapes == expected_shapes(draft.architecture, layout(sizes))


def test_bytes_are_those_of_the_blocks(tmp_path: Path) -> None:
    read = read_language_model(write(tmp_path / "model.gguf", config("llama"), "Q4_K"))
    # 512 rows of 256 weights: a block of 144 bytes each.
    up = read.weights["blk.1.ffn_up.weight"]
    assert (up.format, up.shape, up.n_bytes) == ("Q4_K", (512, 256), 512 * 144)
    norm = read.weights["blk.1.ffn_norm.weight"]
    assert (norm.format, norm.n_bytes) == ("fp32", 1024)


def test_tensors_that_sizes_do_not_imply_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", config("llama"), extra={"rope_freqs.weight": (32,)})
    assert read_language_model(path).weights["rope_freqs.weight"].n_bytes == 128


@pytest.mark.parametrize("part", [1, 3])
def test_any_part_reads_all_parts(part: int, tmp_path: Path) -> None:
    whole = read_language_model(write(tmp_path / "whole.gguf", config("llama")))
    write(tmp_path / "model.gguf", config("llama"), parts=6)
    # 21 tensors, 6 a part.
    assert read_language_model(tmp_path / f"model-0000{part}-of-00004.gguf") == whole


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", config("llama"), parts=6)
    (tmp_path / "model-00002-of-00004.gguf").unlink()
    with pytest.raises(ModelError, match=r"1 of its 4 parts .* model-00002-of-00004\.gguf"):
        read_language_model(tmp_path / "model-00001-of-00004.gguf")


def test_a_renamed_part_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "model.gguf", config("llama"), parts=6)
    renamed = (tmp_path / "model-00001-of-00004.gguf").rename(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match="one part of several"):
        read_language_model(renamed)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", config("llama"), without="blk.1.attn_k.weight")
    with pytest.raises(ModelError, match=r"'blk\.1\.attn_k\.weight' is missing"):
        read_language_model(path)


def test_a_misshapen_tensor_is_named(tmp_path: Path) -> None:
    sizes = config("llama")
    path = write(tmp_path / "model.gguf", sizes, told={**sizes, "num_key_value_heads": 4})
    with pytest.raises(ModelError, match=r"'blk\.0\.attn_k\.weight' is \[128, 256\].*\[256, 256\]"):
        read_language_model(path)


def test_an_unknown_architecture_names_those_that_are_known(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", config("llama"), architecture="mamba")
    with pytest.raises(
        ModelError, match=r"its architecture is 'mamba'.*known are llama, smollm3, qwen2"
    ):
        read_language_model(path)


def test_a_wrong_value_is_named_as_the_file_calls_it(tmp_path: Path) -> None:
    sizes = config("llama")
    path = write(tmp_path / "model.gguf", sizes, told={**sizes, "num_attention_heads": 0})
    with pytest.raises(ModelError, match=r"llama\.attention\.head_count is not a positive integer"):
        read_language_model(path)


def test_long_arrays_are_not_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", config("llama", vocab_size=5000))
    metadata = read_header(path).metadata
    assert "tokenizer.ggml.tokens" not in metadata
    assert "tokenizer.ggml.scores" not in metadata
    assert metadata["llama.block_count"] == 2


def test_files_are_recognised_by_their_content_too(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf", config("llama"))
    assert is_language_model(path.rename(tmp_path / "sha256-0a1b"))
    (tmp_path / "other").write_bytes(b"\x08\x07")
    assert not is_language_model(tmp_path / "other")
    assert not is_language_model(tmp_path / "absent")
