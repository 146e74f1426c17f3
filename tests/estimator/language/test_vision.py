"""Encoders of images: their sizes by config.json, and their tensors in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.core.errors import ModelError
from mansard.estimator.language.architecture import VisionTower
from mansard.estimator.language.catalogue import architecture
from mansard.estimator.language.reading import read_language_model
from tests.estimator.language.hub_files import Parts, tensors_of, write_config, write_safetensors
from tests.estimator.language.small_configs import config

_CLIP = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "patch_size": 14,
    "image_size": 56,
}


def llava(**vision: Any) -> dict[str, Any]:
    text = config("llama")
    return {"model_type": "llava", "text_config": text, "vision_config": {**_CLIP, **vision}}


@pytest.mark.parametrize(
    ("name", "n_blocks", "n_tokens", "projection"),
    [
        # 336 / 14 = 24 patches a side: 576. The last of 24 blocks is not used.
        ("llava-1.5-7b", 23, 576, (4096, 4096)),
        # 224 / 14 = 16: 256.
        ("paligemma-3b", 27, 256, (2048,)),
        # 896 / 14 = 64: 4096 patches, averaged to 256.
        ("gemma-3-4b", 27, 256, (2560,)),
        # 448 / 14 = 32: 1024 patches, 4 of them a token of 4 · 1280.
        ("qwen2.5-vl-3b", 32, 256, (5120, 2048)),
    ],
)
def test_towers_of_public_models(
    name: str, n_blocks: int, n_tokens: int, projection: tuple[int, ...]
) -> None:
    tower = architecture(name).vision
    assert tower is not None
    assert (tower.n_blocks, tower.n_tokens, tower.projection) == (n_blocks, n_tokens, projection)


def test_weights_of_an_encoder_by_hand(tmp_path: Path) -> None:
    weights = read_language_model(write_config(tmp_path / "model", llava())).weights
    shapes = {name: one.shape for name, one in weights.items() if name.startswith(("v.", "mm."))}
    # 56 / 14 = 4 patches a side and the class token.
    assert shapes["v.position_embd.weight"] == (17, 64)
    assert shapes["v.patch_embd.weight"] == (64, 3, 14, 14)
    assert shapes["v.blk.2.ffn_up.weight"] == (128, 64)
    assert shapes["mm.0.weight"] == (256, 64)
    # 3 blocks of 16 tensors, two norms of 2, patches, class, positions, and 4 of the projection.
    assert len(shapes) == 3 * 16 + 2 * 2 + 3 + 4


def test_an_encoder_in_safetensors(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", llava())
    by_config = read_language_model(folder)
    text = tensors_of(config("llama"))
    vision: Parts = {
        f"vision_tower.{name}": ("BF16", weight.shape)
        for name, weight in by_config.weights.items()
        if name.startswith(("v.", "mm."))
    }
    prefixed: Parts = {f"language_model.{name}": part for name, part in text.items()}
    write_safetensors(folder / "model.safetensors", prefixed | vision)
    assert read_language_model(folder) == by_config
    # Of another type than the rest: their bytes count, under the names that the file has.
    wide: Parts = {name: ("F32", shape) for name, (_, shape) in vision.items()}
    some = dict(list(wide.items())[:9])
    write_safetensors(folder / "model.safetensors", prefixed | vision | some)
    weights = read_language_model(folder).weights
    assert sum(weight.n_bytes for weight in weights.values()) == sum(
        weight.n_bytes for weight in by_config.weights.values()
    ) + sum(by_config.weights[name.removeprefix("vision_tower.")].n_bytes for name in some)


def test_qwen_writes_both_models_into_one_object(tmp_path: Path) -> None:
    vision = {"depth": 2, "embed_dim": 64, "hidden_size": 256, "num_heads": 4, "mlp_ratio": 2}
    sizes = config("qwen2_vl", vision_config={**vision, "in_chans": 3}, tie_word_embeddings=True)
    read = read_language_model(write_config(tmp_path / "model", sizes))
    assert read.is_tied
    assert read.vision == VisionTower(
        n_blocks=2,
        hidden=64,
        width=128,
        n_heads=4,
        image_side=448,
        patch_side=14,
        n_tokens=256,
        projection=(256, 256),
    )


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("patch_size", 57, r"vision_config\.patch_size is not at most the image's 56"),
        ("num_hidden_layers", 5000, r"vision_config\.num_hidden_layers is not at most 4096"),
        ("hidden_size", None, r"vision_config\.hidden_size is missing"),
    ],
)
def test_sizes_that_cannot_be(field: str, value: Any, expected: str, tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", llava(**{field: value}))
    with pytest.raises(ModelError, match=expected):
        read_language_model(folder)


def test_an_error_of_the_language_model_says_where(tmp_path: Path) -> None:
    sizes = {**llava(), "text_config": config("llama", num_key_value_heads=3)}
    folder = write_config(tmp_path / "model", sizes)
    with pytest.raises(ModelError, match=r"text_config\.num_key_value_heads is not a divisor"):
        read_language_model(folder)
