"""The inputs that a network of transformers takes, by what its configuration says."""

from __future__ import annotations

from typing import Any

from mansard.estimator.export.guesses import TOKENS, float_type
from mansard.estimator.export.network import Input, forward_parameters

_SEQUENCE = {1: "sequence"}
_DECODED = {1: "decoder_sequence"}
_SAMPLES = 16_000  # one second of speech
_FRAMES = 3_000  # thirty seconds of Whisper's spectrogram, which it always takes whole


def usual_inputs(module: Any, config: Any) -> tuple[Input, ...]:
    """Tokens, an image, a signal or a spectrogram, by ``main_input_name`` and ``forward``.

    Empty where that does not say: such a network needs ``--input``.
    """
    named, _ = forward_parameters(module)
    floating = float_type(module)
    inputs: list[Input] = []
    for name in named:
        if name in ("input_ids", "decoder_input_ids"):
            symbols = _DECODED if name.startswith("decoder") else _SEQUENCE
            high = _size(config, "vocab_size")
            if high is not None and (name == "input_ids" or config.is_encoder_decoder):
                inputs.append(Input(name, (1, TOKENS), "int64", high=high, symbols=symbols))
        elif name == "pixel_values":
            image = _image(config)
            if image is not None:
                inputs.append(Input(name, image, floating))
        elif name == "input_values":
            inputs.append(Input(name, (1, _SAMPLES), floating))
        elif name == "input_features" and _size(config, "num_mel_bins") is not None:
            bins = _size(config, "num_mel_bins") or 0
            inputs.append(Input(name, (1, bins, _FRAMES), floating))
    has_tokens = any(one.name == "input_ids" for one in inputs)
    if has_tokens and "attention_mask" in named:
        mask = Input("attention_mask", (1, TOKENS), "int64", "ones", symbols=_SEQUENCE)
        inputs.append(mask)
    main = module.main_input_name
    return tuple(inputs) if any(one.name == main for one in inputs) else ()


def _size(config: Any, key: str) -> int | None:
    """``key`` of the configuration, or of the part of it that is about text or images."""
    for part in (config, *(getattr(config, f"{name}_config", None) for name in _PARTS)):
        value = getattr(part, key, None)
        if isinstance(value, int):
            return value
    return None


_PARTS = ("text", "vision", "encoder", "decoder", "audio")


def _image(config: Any) -> tuple[int, ...] | None:
    """Batch, channels, height and width of an image; None where the configuration has no size."""
    channels = _size(config, "num_channels") or 3
    for part in (config, getattr(config, "vision_config", None)):
        size = getattr(part, "image_size", None)
        if isinstance(size, int):
            return (1, channels, size, size)
        if isinstance(size, list | tuple) and len(size) == 2:
            return (1, channels, *size)
    return None
