"""The input of a network that nobody described, from its forward signature and first layer."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import msgspec

from mansard.core.errors import UsageError
from mansard.estimator.export.network import Input, forward_parameters, refuse_unknown
from mansard.estimator.export.request import InputSpec

TOKENS = 16
IMAGE = 224  # pixels; what classifiers are trained on (ImageNet)
_LENGTHS = {"Conv1d": (256,), "Conv2d": (IMAGE, IMAGE), "Conv3d": (TOKENS, 112, 112)}
_TOKEN_NAMES = ("input_ids", "token_type_ids", "position_ids", "decoder_input_ids")
_MASK_NAMES = ("attention_mask", "decoder_attention_mask")


def inputs_from_specs(
    module: Any, specs: Sequence[InputSpec], usual: Sequence[Input] = ()
) -> tuple[Input, ...]:
    """The inputs that ``--input`` gives, in the order of ``forward``; raises UsageError.

    ``usual``: what the network takes when nothing is said. Types, fillings and symbols
    are taken from there, for the inputs that are given; the others are left out.
    """
    named, takes_more = forward_parameters(module)
    given = {spec.name: spec for spec in specs}
    if len(given) < len(specs):
        raise UsageError("--input gives one name twice", fix="give each input once")
    for name in given:
        if name not in named and not takes_more:
            refuse_unknown("forward's argument", name, list(named))
    missing = [name for name in required(named) if name not in given]
    if missing:
        raise UsageError(
            f"forward also needs {', '.join(missing)}", fix=f"add --input {missing[0]}=1x3x224x224"
        )
    order = [name for name in named if name in given]
    order += [name for name in given if name not in named]
    known = {one.name: one for one in usual}
    floating = float_type(module)
    return tuple(_from_spec(given[name], known.get(name), floating) for name in order)


def _from_spec(spec: InputSpec, usual: Input | None, floating: str) -> Input:
    if usual is not None and spec.dtype in (None, usual.dtype):
        return msgspec.structs.replace(usual, shape=spec.shape)
    is_integer = spec.name in (*_TOKEN_NAMES, *_MASK_NAMES)
    dtype = spec.dtype or ("int64" if is_integer else floating)
    is_mask = spec.name in _MASK_NAMES or dtype == "bool"
    return Input(spec.name, spec.shape, dtype, "ones" if is_mask else "random")


def required(named: dict[str, inspect.Parameter]) -> list[str]:
    """The arguments without a default."""
    return [name for name, one in named.items() if one.default is inspect.Parameter.empty]


def float_type(module: Any) -> str:
    """The element type of the first floating parameter, else float32."""
    for parameter in module.parameters():
        if parameter.dtype.is_floating_point:
            return str(parameter.dtype).removeprefix("torch.")
    return "float32"


def guess_inputs(module: Any) -> tuple[tuple[Input, ...], str]:
    """Inputs that fit, and one line that says what was assumed; raises UsageError."""
    named, _ = forward_parameters(module)
    needed = required(named)
    if needed and all(name in (*_TOKEN_NAMES, *_MASK_NAMES) for name in needed):
        inputs = tuple(_from_spec(InputSpec(name, (1, TOKENS)), None, "float32") for name in needed)
        return inputs, f"assumed {TOKENS} tokens; --input {needed[0]}=1x128 gives others"
    shape_dtype = _first_layer(module) if len(needed) == 1 else None
    if shape_dtype is None:
        usual = getattr(module, "main_input_name", next(iter(named), "x"))
        names = ", ".join(needed) or usual
        first = needed[0] if needed else usual
        raise UsageError(
            f"cannot tell the shapes of forward's arguments ({names})",
            fix=f"add --input {first}=1x3x224x224, and so for each",
        )
    shape, dtype = shape_dtype
    shown = "x".join(map(str, shape))
    note = f"assumed an input of {shown} from the first layer; --input {needed[0]}=… gives another"
    return (Input(needed[0], shape, dtype),), note


def _first_layer(module: Any) -> tuple[tuple[int, ...], str] | None:
    """Shape and type of what the first layer that has weights can take; None if unknown."""
    for layer in module.modules():
        is_leaf = next(layer.children(), None) is None
        if is_leaf and next(layer.parameters(), None) is not None:
            shape = _taken_shape(layer)
            dtype = "int64" if type(layer).__name__ == "Embedding" else float_type(module)
            return (shape, dtype) if shape is not None else None
    return None


def _taken_shape(layer: Any) -> tuple[int, ...] | None:
    name = type(layer).__name__
    if name in _LENGTHS:
        return (1, layer.in_channels, *_LENGTHS[name])
    if name == "Linear":
        return (1, layer.in_features)
    if name == "Embedding":
        return (1, TOKENS)
    if name in ("LSTM", "GRU", "RNN"):
        return (*((1, TOKENS) if layer.batch_first else (TOKENS, 1)), layer.input_size)
    return None
