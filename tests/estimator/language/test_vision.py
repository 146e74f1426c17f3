"""Encoders of images: their sizes by config.json, and their tensors in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mansard.core.errors import ModelError
from mansard.estimator.language.architecture import VisionTower
from mansard.estimator.language.catalogue import architecture
from mansard.estimator.language.hub_names import part_of
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


_NAMES = {
    "v.class_embd": "vision_tower.vision_model.embeddings.class_embedding",
    "v.patch_embd.": "vision_tower.vision_model.embeddings.patch_embedding.",
    "v.position_embd.": "vision_tower.vision_model.embeddings.position_embedding.",
    "v.pre_ln.": "vision_tower.vision_model.pre_layrnorm.",
    "v.post_ln.": "vision_tower.vision_model.post_layernorm.",
    "v.blk.": "vision_tower.vision_model.encoder.layers.",
    "mm.0.": "multi_modal_projector.linear_1.",
    "mm.2.": "multi_modal_projector.linear_2.",
    ".ln1.": ".layer_norm1.",
    ".ln2.": ".layer_norm2.",
    ".attn_out.": ".self_attn.out_proj.",
    **{f".attn_{letter}.": f".self_attn.{letter}_proj." for letter in "qkv"},
    ".ffn_up.": ".mlp.fc1.",
    ".ffn_down.": ".mlp.fc2.",
}


def _in_llava(name: str) -> str:
    """How llava's files call a weight of the encoder."""
    for ours, theirs in _NAMES.items():
        name = name.replace(ours, theirs)
    return name


def test_an_encoder_in_safetensors(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", llava())
    by_config = read_language_model(folder)
    text: Parts = {
        f"language_model.{name}": part for name, part in tensors_of(config("llama")).items()
    }
    vision: Parts = {
        _in_llava(name): ("BF16", weight.shape)
        for name, weight in by_config.weights.items()
        if name.startswith(("v.", "mm."))
    }
    write_safetensors(folder / "model.safetensors", text | vision)
    assert read_language_model(folder) == by_config


def test_an_encoder_may_be_quantised(tmp_path: Path) -> None:
    folder = write_config(tmp_path / "model", llava())
    text: Parts = {
        f"language_model.{name}": part for name, part in tensors_of(config("llama")).items()
    }
    vision: Parts = {}
    for name, weight in read_language_model(folder).weights.items():
        if name.startswith(("v.", "mm.")):
            is_matrix = ".ffn_" in name and name.endswith(".weight")
            vision[_in_llava(name)] = ("F8_E4M3" if is_matrix else "BF16", weight.shape)
    scale = "vision_tower.vision_model.encoder.layers.1.mlp.fc1.weight_scale"
    vision[scale] = ("BF16", (128, 1))
    write_safetensors(folder / "model.safetensors", text | vision)
    weights = read_language_model(folder).weights
    up = weights["v.blk.1.ffn_up.weight"]
    assert (up.format, up.n_bytes) == ("FP8", 128 * 64 + 128 * 2)
    assert weights["v.blk.1.attn_q.weight"].format == "bf16"


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("visual.patch_embed.proj.weight", "v.patch_embd.weight"),
        ("visual.blocks.7.attn.qkv.bias", "v.blk.7.attn_qkv.bias"),
        ("model.visual.blocks.7.mlp.gate_proj.weight", "v.blk.7.ffn_gate.weight"),
        ("visual.blocks.7.norm2.weight", "v.blk.7.ln2.weight"),
        ("visual.merger.ln_q.weight", "v.post_ln.weight"),
        ("visual.merger.mlp.2.weight", "mm.2.weight"),
        ("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"),
        ("model.multi_modal_projector.mm_soft_emb_norm.weight", "mm.soft_emb_norm.weight"),
    ],
)
def test_names_in_other_models(theirs: str, ours: str) -> None:
    part = part_of(theirs, has_post_norms=False)
    assert part is not None
    assert part.name == ours


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
