"""Fourier transforms and what goes with them.

https://onnx.ai/onnx/operators/onnx__DFT.html, …__STFT, …__HannWindow, …__MelWeightMatrix
"""

from __future__ import annotations

import math

from mansard.estimator.cost import Cost
from mansard.estimator.formulas.registry import register
from mansard.estimator.shapes.transforms import WINDOWS, frame_length, transform_of
from mansard.estimator.tensors import Node


def fft_flop(length: int, is_real: bool) -> int:
    """Operations of one fast Fourier transform: 5·n·log2 n, half of that if one side is real.

    The count of the radix-2 algorithm (n/2·log2 n butterflies of one complex product, 6,
    and two complex sums, 4), by which FFTW's authors rate transforms of any length
    (http://www.fftw.org/speed/method.html). Rounded up. A direct transform would take
    8·n² - 2·n; runtimes use it for no length that matters.
    """
    return math.ceil((2.5 if is_real else 5.0) * length * math.log2(max(length, 1)))


@register("DFT", not_weights=(1, 2))
def dft(node: Node) -> Cost:
    """A fast transform of n points: 5·n·log2 n operations, 2.5·n·log2 n with a real side.

    Whatever the length, as FFTW's authors count; the inverse divides what it writes by n.
    """
    data, found = node.input(0), transform_of(node)
    axis, is_inverse = found.axis, node.integer("inverse", 0)
    if axis is None or found.length is None:
        # The output's shape was given: the axis that differs, else ONNX's default.
        sizes = zip(data.shape[:-1], node.output.shape[:-1], strict=True)
        axis = next((i for i, (a, b) in enumerate(sizes) if a != b), max(data.rank - 2, 0))
    length = found.length if found.length is not None else node.output.shape[axis]
    n_transforms = math.prod(data.shape[:-1]) // max(data.shape[axis], 1)
    work = n_transforms * fft_flop(length, found.is_real)
    return Cost(simple=work + (node.output.n_elements if is_inverse else 0))


@register("STFT", not_weights=(1, 2, 3))
def stft(node: Node) -> Cost:
    """A fast transform of each frame (see DFT), its points times the window before."""
    signal, batch, n_frames = node.input(0), node.output.shape[0], node.output.shape[1]
    length = frame_length(node)
    if length is None:
        n_bins = node.output.shape[2]
        length = 2 * (n_bins - 1) if node.integer("onesided", 1) else n_bins
    is_complex = signal.shape[2:] == (2,)
    window = length * (2 if is_complex else 1) if node.has(2) else 0
    return Cost(simple=batch * n_frames * (fft_flop(length, not is_complex) + window))


@register(*WINDOWS, not_weights=(0,))
def window(node: Node) -> Cost:
    """a - b·cos(c·i): 3 operations and a function for each point; Blackman has one cosine more.

    That one is another factor, function, product and addition.
    """
    n = node.output.n_elements
    if node.op_type == "BlackmanWindow":
        return Cost(simple=6 * n, functions=2 * n)
    return Cost(simple=3 * n, functions=n)


@register("MelWeightMatrix", not_weights=(0, 1, 2, 3, 4))
def mel_weight_matrix(node: Node) -> Cost:
    """Triangles: a difference and a quotient for each element.

    Before that 700·(10^(m / 2595) - 1) at the n + 2 edges of n bins, 3 operations, a
    function, and 3 to the nearest frequency; the limits take a logarithm each.
    """
    n_edges = node.output.shape[1] + 2
    return Cost(simple=2 * node.output.n_elements + 6 * n_edges, functions=n_edges + 2)
