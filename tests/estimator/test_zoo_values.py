"""Networks of the zoo against NumPy: what their layers compute, by other means."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import helper, numpy_helper

from tests.estimator.zoo_sessions import cut, open_session, with_random_weights
from tools.zoo.generate import build

_Array = npt.NDArray[Any]


def _image(side: int) -> _Array:
    return np.random.default_rng(7).standard_normal((1, 3, side, side), dtype=np.float32)


def _sigmoid(x: _Array) -> _Array:
    result: _Array = 1 / (1 + np.exp(-x))
    return result


def test_lstm_equals_numpy() -> None:
    model = with_random_weights(build("lstm"), seed=3)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    readings = np.random.default_rng(5).standard_normal((2, 6, 128), dtype=np.float32)
    x = readings.transpose(1, 0, 2)
    for layer in ("lstm.0", "lstm.1"):
        matrices = (weights[f"{layer}.{part}"] for part in ("weight_ih", "weight_hh", "bias"))
        first, second = zip(*matrices, strict=True)
        forward, backward = _lstm(x, *first), _lstm(x[::-1], *second)[::-1]
        x = np.concatenate((forward, backward), axis=2)
    expected = x[-1] @ weights["fc.weight"].T + weights["fc.bias"]
    (scores,) = open_session(model).run(None, {"readings": readings})
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


def test_gru_equals_numpy() -> None:
    model = with_random_weights(build("gru"), seed=3)
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    readings = np.random.default_rng(5).standard_normal((2, 6, 128), dtype=np.float32)
    x = readings.transpose(1, 0, 2)
    for layer in ("gru.0", "gru.1"):
        x = _gru(x, *(weights[f"{layer}.{part}"][0] for part in ("weight_ih", "weight_hh", "bias")))
    expected = x[-1] @ weights["fc.weight"].T + weights["fc.bias"]
    (scores,) = open_session(model).run(None, {"readings": readings})
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


def _gru(x: _Array, to_gates: _Array, recurrent: _Array, bias: _Array) -> _Array:
    """Hidden states; gates in ONNX's order: update, reset, hidden."""
    hidden = np.zeros((x.shape[1], 256), dtype=np.float32)
    states = []
    for step in x:
        ours = np.split(step @ to_gates.T + bias[:768], 3, axis=1)
        theirs = np.split(hidden @ recurrent.T + bias[768:], 3, axis=1)
        update, reset = (_sigmoid(a + b) for a, b in zip(ours[:2], theirs[:2], strict=True))
        new = np.tanh(ours[2] + reset * theirs[2])
        hidden = (1 - update) * new + update * hidden
        states.append(hidden)
    return np.stack(states)


def test_detector_decodes_its_own_head() -> None:
    model = with_random_weights(build("yolov8n"), seed=3)
    heads = [f"model.22.cv{branch}.{level}.2" for level in range(3) for branch in (2, 3)]
    model.graph.output.extend(helper.make_tensor_value_info(h, 1, None) for h in heads)
    boxes, *maps = open_session(model).run(None, {"images": _image(640)})
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


def test_default_boxes_are_decoded_as_the_paper_says() -> None:
    model = with_random_weights(build("ssdlite320_mobilenet_v3_large"), seed=3)
    model.graph.output.append(helper.make_tensor_value_info("head.regression", 1, None))
    boxes, _, codes = open_session(model).run(None, {"image": _image(320)})
    shares = (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0)
    rows = []
    for level, side in enumerate((20, 10, 5, 3, 2, 1)):
        share, between = shares[level], sqrt(shares[level] * shares[level + 1])
        forms = [(share, share), (between, between)]
        for ratio in (sqrt(2), sqrt(3)):
            forms += [(share * ratio, share / ratio), (share / ratio, share * ratio)]
        for y in range(side):
            for x in range(side):
                middle = ((x + 0.5) / side, (y + 0.5) / side)
                rows += [(*middle, min(width, 1), min(height, 1)) for width, height in forms]
    centre, size = np.split(320 * np.array(rows), 2, axis=1)
    centre = centre + codes[0, :, :2] / 10 * size
    size = size * np.exp(np.minimum(codes[0, :, 2:] / 5, np.log(1000 / 16)))
    expected = np.concatenate((centre - size / 2, centre + size / 2), axis=1).clip(0, 320)
    np.testing.assert_allclose(boxes[0], expected, rtol=1e-4, atol=1e-2)
    assert (boxes[0] % 320 > 0).mean() > 0.1  # not all are cut off at the border


def test_shuffling_takes_channels_of_both_halves_by_turns() -> None:
    session = cut("shufflenet_v2_x1_0", "stage2.0.concat", "stage2.0.shuffled")
    before, after = session.run(None, {"image": _image(224)})
    turns = np.arange(116).reshape(2, 58).T.reshape(-1)  # 0, 58, 1, 59, …
    np.testing.assert_array_equal(after, before[:, turns])


def test_a_cell_sees_its_window_and_after_the_shift_its_neighbours() -> None:
    session = cut("swin_t", "features.1.0.add2", "features.1.1.add2")
    image = _image(224)
    changed = image.copy()
    changed[0, :, 1, 1] += 1  # in the first of 56 × 56 cells
    first, second = (
        np.abs(a - b).max(axis=(0, 3)) > 0
        for a, b in zip(
            session.run(None, {"image": image}), session.run(None, {"image": changed}), strict=True
        )
    )
    # The window of the first block is cells 0 to 6. Shifted by three it is 3 to 9, and cells
    # 0 to 2 share a window with the far edge, which the mask keeps apart.
    for seen, reach in ((first, 7), (second, 10)):
        expected = np.zeros((56, 56), dtype=bool)
        expected[:reach, :reach] = True
        np.testing.assert_array_equal(seen, expected)
