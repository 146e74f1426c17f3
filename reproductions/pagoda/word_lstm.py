"""The language model whose work Pagoda counts: two LSTM layers and a vocabulary.

Its sizes follow from Pagoda's table (docs/understand/pagoda.md): 256 features and hidden units,
29,423 words, no biases. It is in no catalogue.
"""

from __future__ import annotations

from tools.zoo.builder import Graph, Tensor, fixed
from tools.zoo.tokens import project, squeeze, transpose

_HIDDEN = 256
_N_LAYERS = 2
N_WORDS = 29_423


def word_lstm() -> Graph:
    """Features ``[batch, sequence, 256]`` to scores ``[sequence, batch, 29423]``."""
    g = Graph("word_lstm")
    x = g.input("features", ("batch", "sequence", _HIDDEN))
    x = transpose(g, x, "time_first", (1, 0, 2))
    for index in range(_N_LAYERS):
        x = _layer(g, x, f"lstm.{index}")
    g.output(project(g, x, "vocabulary", N_WORDS, bias=False), "scores")
    return g


def _layer(g: Graph, x: Tensor, name: str) -> Tensor:
    """``[sequence, batch, features]`` to ``[sequence, batch, hidden]``."""
    fan_in = fixed(x, 2)
    inputs = (
        x,
        g.weight(f"{name}.weight_ih", (1, 4 * _HIDDEN, fan_in), 1 / fan_in),
        g.weight(f"{name}.weight_hh", (1, 4 * _HIDDEN, _HIDDEN), 1 / _HIDDEN),
    )
    shape = (x.shape[0], 1, x.shape[1], _HIDDEN)
    return squeeze(g, g.node("LSTM", name, inputs, shape, hidden_size=_HIDDEN), f"{name}.one", 1)
