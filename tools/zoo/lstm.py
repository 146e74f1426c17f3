"""A classifier of sensor sequences: two bidirectional LSTM layers and a linear one."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import linear
from tools.zoo.tokens import reshape, take, transpose

_FEATURES = 128
_HIDDEN = 256
_N_LAYERS = 2
_N_CLASSES = 10


def lstm() -> Graph:
    """Readings ``[batch, sequence, 128]`` to scores ``[batch, 10]``."""
    g = Graph("lstm")
    x = g.input("readings", ("batch", "sequence", _FEATURES))
    x = transpose(g, x, "time_first", (1, 0, 2))
    for index in range(_N_LAYERS):
        x = _bidirectional(g, x, f"lstm.{index}")
    x = take(g, x, "last_step", axis=0, index=-1)
    g.output(linear(g, x, "fc", _N_CLASSES), "scores")
    return g


def _bidirectional(g: Graph, x: Tensor, name: str) -> Tensor:
    """``[sequence, batch, features]`` to ``[sequence, batch, 2 · hidden]``.

    ONNX keeps the gates in the order input, output, forget, cell, and the biases of
    input and recurrence one after the other.
    """
    fan_in = fixed(x, 2)
    inputs = (
        x,
        g.weight(f"{name}.weight_ih", (2, 4 * _HIDDEN, fan_in), 1 / fan_in),
        g.weight(f"{name}.weight_hh", (2, 4 * _HIDDEN, _HIDDEN), 1 / _HIDDEN),
        g.weight(f"{name}.bias", (2, 8 * _HIDDEN), 0.0),
    )
    shape = (x.shape[0], 2, x.shape[1], _HIDDEN)
    x = g.node("LSTM", name, inputs, shape, direction="bidirectional", hidden_size=_HIDDEN)
    x = transpose(g, x, f"{name}.transpose", (0, 2, 1, 3))
    return reshape(g, x, f"{name}.merged", (0, 0, 2 * _HIDDEN))
