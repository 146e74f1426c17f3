"""Networks of the zoo run in ONNX Runtime, with any batch, and read their input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper

from mansard.estimator import zoo
from tests.estimator.zoo_sessions import SIBLINGS, cut, open_session, separate_weights
from tools.zoo.generate import build

_Array = npt.NDArray[Any]
_Arrays = dict[str, _Array]

# Networks that pool over the whole image accept any size: a small one keeps this fast.
_SMALL_IMAGE = 64
_SMALL = dict.fromkeys(("inception_resnet_v2", "inception_v3", "inception_v4"), 107)  # pad little
_FIXED_IMAGE = {
    *("alexnet", "vgg16", "vit_b_16", "swin_t", "shufflenet_v2_x1_0", "yolov8n"),
    "ssdlite320_mobilenet_v3_large",
}
_SEQUENCE = 7
_PAST = 5

_RUN = [name for name in zoo.names() if name not in SIBLINGS]

_OUTPUTS: dict[str, dict[str, tuple[int, ...]]] = {
    "bert_base": {"last_hidden_state": (_SEQUENCE, 768), "pooler_output": (768,)},
    "gpt2": {
        "logits": (_SEQUENCE, 50257),
        **{
            f"present.{index}.{part}": (12, _PAST + _SEQUENCE, 64)
            for index in range(12)
            for part in ("key", "value")
        },
    },
    "gru": {"scores": (10,)},
    "lstm": {"scores": (10,)},
    "ssdlite320_mobilenet_v3_large": {"boxes": (3234, 4), "scores": (3234, 91)},
    "unet": {"scores": (2, _SMALL_IMAGE, _SMALL_IMAGE)},
    "yolov8n": {"output0": (84, 8400)},
}


def _shrink(model: ModelProto, name: str) -> ModelProto:
    """The model for a small image, as is the U-Net's output."""
    if name not in _FIXED_IMAGE:
        for value in (*model.graph.input, *model.graph.output):
            dims = value.type.tensor_type.shape.dim
            for dim in dims[2:] if value.name in ("image", "scores") else ():
                dim.dim_value = _SMALL.get(name, _SMALL_IMAGE)
    return model


def _feed(model: ModelProto, batch: int) -> _Arrays:
    rng = np.random.default_rng(7)
    feed: _Arrays = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        free = {"batch": batch, "sequence": _SEQUENCE, "past_sequence": _PAST}
        shape = tuple(free.get(dim.dim_param, dim.dim_value) for dim in kind.shape.dim)
        if helper.tensor_dtype_to_np_dtype(kind.elem_type) == np.float32:
            feed[value.name] = rng.standard_normal(shape, dtype=np.float32)
        else:
            feed[value.name] = rng.integers(0, 2, shape)
            feed[value.name][:, 0] = 1  # the mask keeps at least one token
    return feed


def _run(session: onnxruntime.InferenceSession, feed: Mapping[str, _Array]) -> _Arrays:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feed)), strict=True))


@pytest.mark.parametrize("name", _RUN)
def test_runs_with_random_weights_at_any_batch(name: str) -> None:
    # Fed as inputs, for the largest are slow to store in a model of half a gigabyte.
    model = _shrink(onnx.load_from_string(zoo.read(name)), name)
    feed = _feed(model, batch=2)
    model, weights = separate_weights(model, seed=3)
    session = open_session(model)
    both = _run(session, {**feed, **weights})
    alone = _run(session, {**{key: value[:1] for key, value in feed.items()}, **weights})

    expected: dict[str, tuple[int, ...]] = _OUTPUTS.get(name, {"scores": (1000,)})
    assert {key: value.shape for key, value in both.items()} == {
        key: (2, *shape) for key, shape in expected.items()
    }
    for key, values in both.items():
        assert np.isfinite(values).all()
        first, second = values.astype(np.float64)
        assert first.std() > 0
        size = np.abs(first).max()
        # One image's result depends on the image, and on no other image of the batch.
        assert np.abs(first - second).max() > 1e-3 * size
        np.testing.assert_allclose(alone[key][0], first, rtol=0, atol=1e-4 * size)


def test_bert_does_not_see_masked_tokens() -> None:
    session = cut("bert_base", "layer.1.norm")
    tokens = np.arange(100, 112).reshape(1, 12)
    feed = {"input_ids": tokens, "token_type_ids": np.zeros_like(tokens)}
    mask = np.ones_like(tokens)
    mask[0, 8:] = 0
    (whole,) = session.run(None, {**feed, "attention_mask": mask})
    short = {key: value[:, :8] for key, value in feed.items()}
    (alone,) = session.run(None, {**short, "attention_mask": mask[:, :8]})
    np.testing.assert_allclose(whole[:, :8], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", _RUN)
def test_runs_as_it_ships(name: str) -> None:
    model = _shrink(onnx.load_from_string(zoo.read(name)), name)
    for values in _run(open_session(model), _feed(model, batch=1)).values():
        assert np.isfinite(values).all()


def test_the_same_seed_gives_the_same_weights() -> None:
    model = build("resnet18")
    (_, first), (_, again), (_, other) = (separate_weights(model, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["conv1.weight"], other["conv1.weight"])
    # He et al.: a variance of two over the inputs of an output, here 64 · 3 · 3.
    filters = first["layer1.0.conv1.weight"]
    assert filters.var() == pytest.approx(2 / 576, rel=0.05)
    assert (first["bn1.var"] >= 0.5).all()
    # The model given is not changed.
    assert model == build("resnet18")
