"""A classifier of sensor sequences: two GRU layers (arXiv:1406.1078) and a linear one."""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.layers import linear
from tools.zoo.tokens import squeeze, take, transpose

_FEATURES = 128
_HIDDEN = 256
_N_LAYERS = 2
_N_CLASSES = 10


def gru() -> Graph:
    """Readings ``[batch, sequence, 128]`` to scores ``[batch, 10]``."""
    g = Graph("gru")
    x = g.input("readings", ("batch", "sequence", _FEATURES))
    x = transpose(g, x, "time_first", (1, 0, 2))
    for index in range(_N_LAYERS):
        x = _layer(g, x, f"gru.{index}")
    x = take(g, x, "last_step", axis=0, index=-1)
    g.output(linear(g, x, "fc", _N_CLASSES), "scores")
    return g


def _layer(g: Graph, x: Tensor, name: str) -> Tensor:
    """``[sequence, batch, features]`` to ``[sequence, batch, hidden]``.

    ONNX keeps the gates in the order update, reset, hidden. As in PyTorch the reset gate
    acts on the product with the recurrent weights (``linear_before_reset``).
    """
    fan_in = fixed(x, 2)
    inputs = (
        x,
        g.weight(f"{name}.weight_ih", (1, 3 * _HIDDEN, fan_in), 1 / fan_in),
        g.weight(f"{name}.weight_hh", (1, 3 * _HIDDEN, _HIDDEN), 1 / _HIDDEN),
        g.weight(f"{name}.bias", (1, 6 * _HIDDEN), 0.0),
    )
    shape = (x.shape[0], 1, x.shape[1], _HIDDEN)
    x = g.node("GRU", name, inputs, shape, hidden_size=_HIDDEN, linear_before_reset=1)
    return squeeze(g, x, f"{name}.squeeze", 1)
