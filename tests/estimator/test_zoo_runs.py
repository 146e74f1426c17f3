"""Every network of the zoo runs in ONNX Runtime, with any batch, and reads its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper, numpy_helper, shape_inference, utils

from mansard.estimator import zoo
from mansard.estimator.zoo.weights import separate_weights, with_random_weights

_Array = npt.NDArray[Any]
_Arrays = dict[str, _Array]

# Networks that pool over the whole image accept any size: a small one keeps this fast.
_SMALL_IMAGE = 64
_FIXED_IMAGE = {"alexnet", "vgg16", "vit_b_16", "yolov8n"}
_SEQUENCE = 7

_OUTPUTS: dict[str, dict[str, tuple[int, ...]]] = {
    "bert_base": {"last_hidden_state": (_SEQUENCE, 768), "pooler_output": (768,)},
    "gpt2": {"logits": (_SEQUENCE, 50257)},
    "lstm": {"scores": (10,)},
    "unet": {"scores": (2, _SMALL_IMAGE, _SMALL_IMAGE)},
    "yolov8n": {"output0": (84, 8400)},
}


def _shrink(model: ModelProto, name: str) -> ModelProto:
    if name not in _FIXED_IMAGE:
        for value in (*model.graph.input, *model.graph.output):
            dims = value.type.tensor_type.shape.dim
            for dim in dims[2:] if len(dims) == 4 else ():
                dim.dim_value = _SMALL_IMAGE
    return model


def _session(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _feed(model: ModelProto, batch: int) -> _Arrays:
    rng = np.random.default_rng(7)
    feed: _Arrays = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        free = {"batch": batch, "sequence": _SEQUENCE}
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


@pytest.mark.parametrize("name", zoo.names())
def test_runs_with_random_weights_at_any_batch(name: str) -> None:
    # Fed as inputs, for the largest are slow to store in a model of half a gigabyte.
    model = _shrink(onnx.load_from_string(zoo.read(name)), name)
    feed = _feed(model, batch=2)
    model, weights = separate_weights(model, seed=3)
    session = _session(model)
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


def _first_layers(name: str, n_layers: int, end: str) -> onnxruntime.InferenceSession:
    """The network cut after its first layers, with random weights."""
    model = shape_inference.infer_shapes(zoo.build(name))
    inputs = [value.name for value in model.graph.input]
    cut = utils.Extractor(model).extract_model(inputs, [end.format(n_layers - 1)])
    return _session(with_random_weights(cut, seed=3))


def test_gpt2_does_not_look_ahead() -> None:
    session = _first_layers("gpt2", 2, "h.{}.mlp.add")
    tokens = np.arange(12).reshape(1, 12)
    changed = tokens.copy()
    changed[0, 8] = 999
    (before,), (after,) = (
        session.run(None, {"input_ids": tokens}),
        session.run(None, {"input_ids": changed}),
    )
    np.testing.assert_allclose(after[0, :8], before[0, :8], rtol=0, atol=1e-5)
    # The changed token and all that follow see the change.
    assert (np.abs(after[0, 8:] - before[0, 8:]).max(axis=1) > 1e-3).all()


def test_bert_does_not_see_masked_tokens() -> None:
    session = _first_layers("bert_base", 2, "encoder.layer.{}.output.LayerNorm")
    tokens = np.arange(100, 112).reshape(1, 12)
    feed = {"input_ids": tokens, "token_type_ids": np.zeros_like(tokens)}
    mask = np.ones_like(tokens)
    mask[0, 8:] = 0
    (whole,) = session.run(None, {**feed, "attention_mask": mask})
    short = {key: value[:, :8] for key, value in feed.items()}
    (cut,) = session.run(None, {**short, "attention_mask": mask[:, :8]})
    np.testing.assert_allclose(whole[:, :8], cut, rtol=0, atol=1e-5)


def test_lstm_equals_numpy() -> None:
    model = with_random_weights(zoo.build("lstm"), seed=3)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    readings = np.random.default_rng(5).standard_normal((2, 6, 128), dtype=np.float32)
    x = readings.transpose(1, 0, 2)
    for layer in ("lstm.0", "lstm.1"):
        matrices = (weights[f"{layer}.{part}"] for part in ("weight_ih", "weight_hh", "bias"))
        first, second = zip(*matrices, strict=True)
        forward, backward = _lstm(x, *first), _lstm(x[::-1], *second)[::-1]
        x = np.concatenate((forward, backward), axis=2)
    expected = x[-1] @ weights["fc.weight"].T + weights["fc.bias"]
    (scores,) = _session(model).run(None, {"readings": readings})
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def _lstm(x: _Array, to_gates: _Array, recurrent: _Array, bias: _Array) -> _Array:
    """Hidden states of one direction; gates in ONNX's order: input, output, forget, cell."""
    hidden = cell = np.zeros((x.shape[1], 256), dtype=np.float32)
    states = []
    for step in x:
        gates = step @ to_gates.T + hidden @ recurrent.T + bias[:1024] + bias[1024:]
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in np.split(gates[:, :768], 3, axis=1))
        cell = f * cell + i * np.tanh(gates[:, 768:])
        hidden = o * np.tanh(cell)
        states.append(hidden)
    return np.stack(states)


def test_detector_decodes_its_own_head() -> None:
    model = with_random_weights(zoo.build("yolov8n"), seed=3)
    heads = [f"model.22.cv{branch}.{level}.2" for level in range(3) for branch in (2, 3)]
    model.graph.output.extend(helper.make_tensor_value_info(h, 1, None) for h in heads)
    boxes, *maps = _session(model).run(None, _feed(model, batch=1))
    expected = []
    for level, stride in enumerate((8, 16, 32)):
        sides, scores = maps[2 * level : 2 * level + 2]
        height, width = sides.shape[2:]
        share = np.exp(sides.reshape(1, 4, 16, height, width))
        bins = np.arange(16).reshape(1, 1, 16, 1, 1)
        left, top, right, bottom = ((share * bins).sum(axis=2) / share.sum(axis=2))[0]
        x, y = np.arange(width) + 0.5, np.arange(height)[:, None] + 0.5
        middle = (x + (right - left) / 2, y + (bottom - top) / 2)
        box = np.stack((*middle, left + right, top + bottom)) * stride
        rows = np.concatenate((box, 1 / (1 + np.exp(-scores[0]))))
        expected.append(rows.reshape(84, -1))
    np.testing.assert_allclose(boxes[0], np.concatenate(expected, axis=1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", zoo.names())
def test_runs_as_it_ships(name: str) -> None:
    model = _shrink(onnx.load_from_string(zoo.read(name)), name)
    for values in _run(_session(model), _feed(model, batch=1)).values():
        assert np.isfinite(values).all()


def test_the_same_seed_gives_the_same_weights() -> None:
    model = zoo.build("resnet18")
    (_, first), (_, again), (_, other) = (separate_weights(model, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["conv1.weight"], other["conv1.weight"])
    # He et al.: a variance of two over the inputs of an output, here 64 · 3 · 3.
    filters = first["layer1.0.conv1.weight"]
    assert filters.var() == pytest.approx(2 / 576, rel=0.05)
    assert (first["bn1.running_var"] >= 0.5).all()
    # The model given is not changed.
    assert model == zoo.build("resnet18")
