"""Image encoders of vision-language models: their sizes and tensors.

Fields are those of ``vision_config`` in config.json; the modules are those of ``modeling_*.py`` of
Transformers (clip, siglip, qwen2_vl, qwen2_5_vl) and of the projections of llava, paligemma and
gemma3. Tensors have the names of llama.cpp's files of encoders (mmproj): ``v.blk.0.attn_q.weight``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from mansard.estimator.language.architecture import VisionTower
from mansard.estimator.language.fields import MAX_BLOCKS, Fields
from mansard.estimator.language.tensors import Shape

_QWEN_SIDE = 448  # of an image, where an encoder accepts any size and the file names none


class VisionDraft(msgspec.Struct, frozen=True):
    """An encoder, and the tensors that it has."""

    tower: VisionTower
    shapes: Mapping[str, Shape]


class _Modules(msgspec.Struct, frozen=True, kw_only=True):
    """Which tensors an encoder has."""

    n_stored: int  # blocks in the file: llava's last one is not used
    n_frames: int = 1  # of a video that a patch spans; an image is repeated
    has_patch_bias: bool = False
    has_positions: bool = False
    has_first_norm: bool = False
    has_last_norm: bool = False
    has_norm_bias: bool = True
    is_qkv_fused: bool = False


def read_vision(model_type: str, config: Fields, hidden: int) -> VisionDraft | None:
    """The encoder of a model of this type; None where it has none.

    ``hidden``: of the language model. Raises ModelError for sizes that cannot be.
    """
    read = _TOWERS.get(model_type)
    fields = config.inner("vision_config")
    if read is None or fields is None:
        return None
    return read(fields, config, hidden)


def _tower(fields: Fields, tokens_of: Callable[[int], int], **more: object) -> VisionTower:
    """What CLIP's and SigLIP's encoders share. ``tokens_of``: of a number of patches."""
    side, patch = fields.size("image_size", 224), fields.size("patch_size")
    if patch > side:
        raise fields.bad("patch_size", f"at most the image's {side}")
    return VisionTower(
        n_blocks=_blocks(fields, "num_hidden_layers"),
        hidden=fields.size("hidden_size"),
        width=fields.size("intermediate_size"),
        n_heads=fields.size("num_attention_heads"),
        image_side=side,
        patch_side=patch,
        n_tokens=tokens_of((side // patch) ** 2),
        n_channels=fields.size("num_channels", 3),
        **more,  # type: ignore[arg-type]
    )


def _blocks(fields: Fields, name: str) -> int:
    n_blocks = fields.size(name)
    if n_blocks > MAX_BLOCKS:
        raise fields.bad(name, f"at most {MAX_BLOCKS}")
    return n_blocks


def _llava(fields: Fields, config: Fields, hidden: int) -> VisionDraft:
    """CLIP without its last blocks, and two layers (arXiv:2310.03744)."""
    tower = _tower(
        fields, lambda patches: patches, has_class_token=True, projection=(hidden, hidden)
    )
    modules = _Modules(
        n_stored=tower.n_blocks, has_positions=True, has_first_norm=True, has_last_norm=True
    )
    shapes = dict(_shapes(tower, modules))
    shapes |= {"mm.0.weight": (hidden, tower.hidden), "mm.0.bias": (hidden,)}
    shapes |= {"mm.2.weight": (hidden, hidden), "mm.2.bias": (hidden,)}
    layer = config.values.get("vision_feature_layer", -2)
    n_unused = -1 - layer if type(layer) is int and -tower.n_blocks <= layer < 0 else 0
    return VisionDraft(msgspec.structs.replace(tower, n_blocks=tower.n_blocks - n_unused), shapes)


_SIGLIP = {"has_patch_bias": True, "has_positions": True, "has_last_norm": True}


def _paligemma(fields: Fields, _config: Fields, hidden: int) -> VisionDraft:
    """SigLIP and one layer (arXiv:2407.07726)."""
    tower = _tower(fields, lambda patches: patches, projection=(hidden,))
    shapes = dict(_shapes(tower, _Modules(n_stored=tower.n_blocks, **_SIGLIP)))
    shapes |= {"mm.0.weight": (hidden, tower.hidden), "mm.0.bias": (hidden,)}
    return VisionDraft(tower, shapes)


def _gemma3(fields: Fields, config: Fields, hidden: int) -> VisionDraft:
    """SigLIP, its patches averaged to 256 tokens, a norm and one matrix (arXiv:2503.19786)."""
    n_tokens = config.size("mm_tokens_per_image", 256)
    tower = _tower(fields, lambda _patches: n_tokens, projection=(hidden,))
    shapes = dict(_shapes(tower, _Modules(n_stored=tower.n_blocks, **_SIGLIP)))
    shapes |= {"mm.soft_emb_norm.weight": (tower.hidden,)}
    shapes |= {"mm.input_projection.weight": (hidden, tower.hidden)}
    return VisionDraft(tower, shapes)


def _qwen(fields: Fields, *, is_gated: bool) -> VisionDraft:
    """The encoders of Qwen2-VL (arXiv:2409.12191) and Qwen2.5-VL (arXiv:2502.13923).

    They read images of any size: ``image_side`` is 448. Some blocks of Qwen2.5-VL see windows of
    the image alone, which counts here as all of it.
    """
    merged = fields.size("spatial_merge_size", 2) ** 2
    patch = fields.size("patch_size", 14)
    width = fields.size("hidden_size") if is_gated else fields.size("embed_dim")
    output = fields.size("out_hidden_size") if is_gated else fields.size("hidden_size")
    inner = fields.size("intermediate_size") if is_gated else width * fields.size("mlp_ratio", 4)
    tower = VisionTower(
        n_blocks=_blocks(fields, "depth"),
        hidden=width,
        width=inner,
        n_heads=fields.size("num_heads"),
        image_side=_QWEN_SIDE,
        patch_side=patch,
        n_tokens=max(1, (_QWEN_SIDE // patch) ** 2 // merged),
        is_gated=is_gated,
        projection=(width * merged, output),
        n_channels=fields.size("in_channels", fields.size("in_chans", 3)),
    )
    modules = _Modules(
        n_stored=tower.n_blocks,
        n_frames=fields.size("temporal_patch_size", 2),
        has_last_norm=True,
        has_norm_bias=not is_gated,
        is_qkv_fused=True,
    )
    shapes = dict(_shapes(tower, modules))
    shapes |= {"mm.0.weight": (width * merged, width * merged), "mm.0.bias": (width * merged,)}
    shapes |= {"mm.2.weight": (output, width * merged), "mm.2.bias": (output,)}
    return VisionDraft(tower, shapes)


_TOWERS: Mapping[str, Callable[[Fields, Fields, int], VisionDraft]] = MappingProxyType(
    {
        "llava": _llava,
        "paligemma": _paligemma,
        "gemma3": _gemma3,
        "qwen2_vl": lambda fields, _config, _hidden: _qwen(fields, is_gated=False),
        "qwen2_5_vl": lambda fields, _config, _hidden: _qwen(fields, is_gated=True),
    }
)


def _shapes(tower: VisionTower, modules: _Modules) -> Iterator[tuple[str, Shape]]:
    hidden = tower.hidden
    patch = (tower.n_channels,) + (modules.n_frames,) * (modules.n_frames > 1)
    yield "v.patch_embd.weight", (hidden, *patch, tower.patch_side, tower.patch_side)
    if modules.has_patch_bias:
        yield "v.patch_embd.bias", (hidden,)
    if tower.has_class_token:
        yield "v.class_embd", (hidden,)
    if modules.has_positions:
        n_positions = (tower.image_side // tower.patch_side) ** 2 + tower.has_class_token
        yield "v.position_embd.weight", (n_positions, hidden)
    norms = ["v.pre_ln"] * modules.has_first_norm + ["v.post_ln"] * modules.has_last_norm
    for name in norms:
        yield from _norm(name, hidden, modules)
    for index in range(modules.n_stored):
        for name, shape in _block(tower, modules):
            yield f"v.blk.{index}.{name}", shape


def _norm(name: str, width: int, modules: _Modules) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    if modules.has_norm_bias:
        yield f"{name}.bias", (width,)


def _block(tower: VisionTower, modules: _Modules) -> Iterator[tuple[str, Shape]]:
    hidden, width = tower.hidden, tower.width
    for norm in ("ln1", "ln2"):
        yield from _norm(norm, hidden, modules)
    inputs = [("attn_qkv", 3 * hidden)] if modules.is_qkv_fused else []
    inputs = inputs or [(f"attn_{letter}", hidden) for letter in "qkv"]
    gate = [("ffn_gate", width, hidden)] * tower.is_gated
    matrices = [(name, rows, hidden) for name, rows in inputs]
    matrices += [("attn_out", hidden, hidden), *gate, ("ffn_up", width, hidden)]
    for name, rows, columns in (*matrices, ("ffn_down", hidden, width)):
        yield f"{name}.weight", (rows, columns)
        yield f"{name}.bias", (rows,)
