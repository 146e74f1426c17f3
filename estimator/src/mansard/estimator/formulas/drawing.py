"""Random numbers. One that is drawn counts as one function.

https://onnx.ai/onnx/operators/onnx__RandomNormal.html, …__Bernoulli, …__Multinomial and kin.
What a generator does for one number (Philox: some 100 integer operations for four) is no
arithmetic of the network; exp and log hide as much behind one function.
"""

from __future__ import annotations

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.movement import no_bytes
from mansard.estimator.formulas.registry import register
from mansard.estimator.tensors import Node


@register("RandomNormal", "RandomUniform")
def draw(node: Node) -> Cost:
    """A function for each number that is drawn, a factor and a summand to scale it."""
    n = node.output.n_elements
    return Cost(simple=2 * n, functions=n)


@register("RandomNormalLike", "RandomUniformLike", not_weights=(0,), reads=no_bytes)
def draw_like(node: Node) -> Cost:
    """As RandomNormal and RandomUniform; of the input only the shape is used."""
    return draw(node)


@register("Bernoulli")
def bernoulli(node: Node) -> Cost:
    """A function for each number that is drawn, and a comparison with its probability."""
    n = node.output.n_elements
    return Cost(simple=n, functions=n)


@register("Multinomial")
def multinomial(node: Node) -> Cost:
    """Running sums of exp(x - maximum) for each row, then a search for each sample.

    A row of n: n - 1 comparisons, n differences, n functions, n - 1 additions. A sample:
    a function, a factor, and ⌈log2 n⌉ comparisons.
    """
    batch, n = node.input(0).shape
    n_samples = node.output.n_elements
    rows = batch * Cost(simple=3 * n - 2, functions=n) if n else Cost()
    return rows + n_samples * Cost(simple=1 + max(n - 1, 0).bit_length(), functions=1)
