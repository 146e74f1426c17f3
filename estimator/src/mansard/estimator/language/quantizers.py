"""Formats of quantised Hugging Face models: from their tensors, or from config.json alone.

A quantised weight is stored as several tensors: packed numbers, scales, zero points. Their types
and counts say the format. Without them the field ``quantization_config`` does, or ModelOpt's file
``hf_quant_config.json``. Fields: https://huggingface.co/docs/transformers/main_classes/quantization
(AWQ, GPTQ, bitsandbytes, fp8), https://github.com/vllm-project/compressed-tensors, and
https://nvidia.github.io/TensorRT-Model-Optimizer/deployment/3_unified_hf.html.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from mansard.core.errors import ModelError
from mansard.core.weight_formats import WEIGHT_FORMATS, WeightFormat, grouped_format
from mansard.estimator.language.fields import Fields
from mansard.estimator.language.safetensors import TYPE_BITS
from mansard.estimator.language.tensors import Shape

PLAIN_TYPES = {"F32": "fp32", "F16": "fp16", "BF16": "bf16", "F64": "fp64"}
_FP8 = ("F8_E4M3", "F8_E5M2")
_PACKED = ("weight", "qweight", "weight_packed", "bias", "e_score_correction_bias")
_SCALES = ("scales", "weight_scale", "weight_scale_inv", "weight.absmax", "SCB")
_ZEROS = ("qzeros", "weight_zero_point")


class StoredPart(msgspec.Struct, frozen=True):
    """One kind of tensor of a weight, of all its experts together."""

    dtype: str
    n_numbers: int
    n_bytes: int


def format_of_parts(parts: Mapping[str, StoredPart], shape: Shape) -> WeightFormat:
    """The format of a weight of this shape; raises ModelError for one not known."""
    n_weights = math.prod(shape)
    packed = next((parts[name] for name in _PACKED if name in parts), None)
    if packed is None:
        raise ModelError(f"it has {', '.join(sorted(parts))}, and no weight")
    as_it_is = {**PLAIN_TYPES, **dict.fromkeys(_FP8, "FP8")}.get(packed.dtype)
    if as_it_is is not None and packed.n_numbers == n_weights:
        return WEIGHT_FORMATS[as_it_is]
    n_bits, rest = divmod(packed.n_numbers * TYPE_BITS[packed.dtype], n_weights)
    scales = next((parts[name] for name in _SCALES if name in parts), None)
    if scales is None or rest or n_bits not in {2, 3, 4, 8} or not scales.n_numbers:
        raise ModelError(
            f"it has {packed.n_bytes} bytes of {packed.dtype} for {n_weights} weights, in an "
            "unknown format"
        )
    if n_bits == 4 and "weight.absmax" in parts:
        return WEIGHT_FORMATS["NF4"]
    if n_bits == 4 and TYPE_BITS[scales.dtype] == 8:
        return WEIGHT_FORMATS["NVFP4" if scales.dtype in _FP8 else "MXFP4"]
    has_zeros = any(name in parts for name in _ZEROS)
    group = n_weights // scales.n_numbers
    if group == shape[-1]:
        return _by_rows(n_bits, group, has_zeros=has_zeros)
    scale_bytes = TYPE_BITS[scales.dtype] // 8
    return grouped_format(n_bits, group, has_zeros=has_zeros, scale_bytes=scale_bytes)


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """What config.json says of the matrices of the blocks.

    ``form``: None where each row is one group of ``n_bits``. ``skipped``: patterns of modules that
    are stored as they were.
    """

    form: WeightFormat | None
    n_bits: int = 0
    has_zeros: bool = False
    skipped: tuple[str, ...] = ()

    def format_of(self, shape: Shape) -> WeightFormat:
        if self.form is not None:
            return self.form
        return _by_rows(self.n_bits, shape[-1], has_zeros=self.has_zeros)

    def skips(self, module: str) -> bool:
        """Whether a module is left as it was: its name, a part of it or a pattern is listed."""
        return any(
            fnmatch.fnmatchcase(module, name) if "*" in name else f".{name}." in f".{module}."
            for name in self.skipped
        )


def _by_rows(n_bits: int, row: int, *, has_zeros: bool) -> WeightFormat:
    """A scale for each row. Kernels multiply such weights of 8 bits as they are."""
    form = grouped_format(n_bits, row, has_zeros=has_zeros)
    return msgspec.structs.replace(form, compute="int8") if n_bits == 8 else form


def read_quantization(
    config: Mapping[str, Any], modelopt: Mapping[str, Any] | None
) -> Quantization | None:
    """What config.json, or ModelOpt's own file, says; None where nothing is quantised.

    Raises ModelError for a method or a number of bits that is not known.
    """
    fields = Fields(config).inner("quantization_config")
    if fields is None or not fields.values:
        if modelopt is None:
            return None
        fields = Fields(modelopt).inner("quantization") or Fields({})
        return _modelopt(fields)
    method = fields.text("quant_method", "")
    read = _METHODS.get(method)
    if read is None:
        raise ModelError(
            f"quantization_config.quant_method {method!r} is unknown",
            fix=f"known are {', '.join(_METHODS)}; or get the .safetensors files",
        )
    return read(fields)


def _integers(fields: Fields, *, has_zeros: bool) -> Quantization:
    n_bits = fields.size("bits", 4)
    if n_bits not in {2, 3, 4, 8}:
        raise fields.bad("bits", "2, 3, 4 or 8")
    group = fields.values.get("group_size", 128)
    if group == -1:
        return Quantization(form=None, n_bits=n_bits, has_zeros=has_zeros, skipped=_skipped(fields))
    form = grouped_format(n_bits, fields.size("group_size", 128), has_zeros=has_zeros)
    return Quantization(form=form, skipped=_skipped(fields))


def _awq(fields: Fields) -> Quantization:
    return _integers(fields, has_zeros=fields.flag("zero_point", default=True))


def _gptq(fields: Fields) -> Quantization:
    # Symmetric ones store zero points, too.
    return _integers(fields, has_zeros=True)


def _bitsandbytes(fields: Fields) -> Quantization:
    skipped = _skipped(fields)
    if fields.flag("load_in_4bit"):
        is_double = fields.flag("bnb_4bit_use_double_quant")
        form = WEIGHT_FORMATS["NF4_DQ" if is_double else "NF4"]
        return Quantization(form=form, skipped=skipped)
    return Quantization(form=None, n_bits=8, skipped=skipped)


def _fp8(fields: Fields) -> Quantization:
    return Quantization(form=WEIGHT_FORMATS["FP8"], skipped=_skipped(fields))


def _modelopt(fields: Fields) -> Quantization:
    name = fields.text("quant_algo", "").upper()
    skipped = _skipped(fields)
    if name.startswith("FP8"):
        return Quantization(form=WEIGHT_FORMATS["FP8"], skipped=skipped)
    if name.startswith("NVFP4"):
        return Quantization(form=WEIGHT_FORMATS["NVFP4"], skipped=skipped)
    if name in {"W4A16_AWQ", "W4A8_AWQ"}:
        form = grouped_format(4, fields.size("group_size", 128), has_zeros=False)
        return Quantization(form=form, skipped=skipped)
    raise fields.bad("quant_algo", "FP8, NVFP4 or W4A16_AWQ")


def _compressed_tensors(fields: Fields) -> Quantization:
    groups = fields.inner("config_groups") or Fields({})
    weights = [Fields(groups.values).inner(name) for name in groups.values]
    inner = [group.inner("weights") for group in weights if group is not None]
    stated = [one for one in inner if one is not None]
    if not stated or any(one.values != stated[0].values for one in stated):
        raise ModelError(
            "quantization_config.config_groups does not state one format for all weights",
            fix="get the .safetensors files, which say it of each",
        )
    one, skipped = stated[0], _skipped(fields)
    n_bits, kind = one.size("num_bits"), one.text("type", "int")
    group = one.optional("group_size") if one.values.get("group_size") != -1 else None
    if kind == "float" and n_bits in {4, 8}:
        small = "NVFP4" if group == 16 else "MXFP4"
        return Quantization(form=WEIGHT_FORMATS["FP8" if n_bits == 8 else small], skipped=skipped)
    if kind != "int" or n_bits not in {2, 3, 4, 8}:
        raise one.bad("num_bits", "2, 3, 4 or 8")
    has_zeros = not one.flag("symmetric", default=True)
    form = grouped_format(n_bits, group, has_zeros=has_zeros) if group else None
    return Quantization(form=form, n_bits=n_bits, has_zeros=has_zeros, skipped=skipped)


_METHODS = {
    "awq": _awq,
    "gptq": _gptq,
    "bitsandbytes": _bitsandbytes,
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed_tensors,
}
_LISTS = (
    *("modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules"),
    "llm_int8_skip_modules",
)


def _skipped(fields: Fields) -> tuple[str, ...]:
    """Names of modules that are left as they were, regular expressions as patterns of a shell."""
    names = [name for field in _LISTS for name in fields.list_of(field, str) or []]
    return tuple(
        _as_glob(name.removeprefix("re:")) if name.startswith("re:") else name for name in names
    )


def _as_glob(pattern: str) -> str:
    """Such as ``.*lm_head$``; no regular expression of a file is run."""
    glob = pattern.replace(".*", "*").replace("\\.", ".").strip("^$")
    if any(sign in glob for sign in "\\()[]{}|+?"):
        raise ModelError(
            f"quantization_config.ignore has the pattern {pattern!r}, which is not understood",
            fix="get the .safetensors files, which say what is quantised",
        )
    return glob
