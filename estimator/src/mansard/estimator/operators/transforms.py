"""Fourier transforms and what goes with them.

https://onnx.ai/onnx/operators/onnx__DFT.html, …__STFT, …__HannWindow, …__MelWeightMatrix
"""

from __future__ import annotations

import math

import msgspec

from mansard.estimator.cost import Cost
from mansard.estimator.numbers import FLOAT32
from mansard.estimator.operators.registry import Specs, operator
from mansard.estimator.operators.shapes import check_length, check_rank, element_type, known_int
from mansard.estimator.tensors import Node

_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")


class _Transform(msgspec.Struct, frozen=True):
    """A DFT. ``axis``, ``length``: along which axis, over how many points; None: not known.

    ``is_real``: its input or its output is real.
    """

    axis: int | None
    length: int | None
    is_real: bool


def _transform_of(node: Node) -> _Transform:
    """What a DFT node does; raises ModelError where it contradicts itself."""
    data = node.input(0)
    if data.rank < 2 or data.shape[-1] not in (1, 2):
        raise node.error(f"needs [signal…, 1 or 2], the input is {list(data.shape)}")
    inverse, onesided = node.integer("inverse", 0), node.integer("onesided", 0)
    is_complex = data.shape[-1] == 2
    if onesided and bool(inverse) != is_complex:
        kind = "a complex" if inverse else "a real"
        raise node.error(f"a one-sided transform needs {kind} input, not {list(data.shape)}")
    axis = node.integer("axis", 1)
    if node.opset >= 20:
        given = known_int(node, 2) if node.has(2) else -2
        if given is None:
            return _Transform(None, None, bool(onesided) or not is_complex)
        axis = given
    position = data.axis(axis)
    if position == data.rank - 1:
        raise node.error(f"axis {axis} of {list(data.shape)} holds real and imaginary parts")
    if node.has(1):
        length = known_int(node, 1)
        if length is not None and length < 1:
            raise node.error(f"a transform over {length} points")
    else:
        size = data.shape[position]
        length = 2 * (size - 1) if onesided and inverse else size
    return _Transform(position, length, bool(onesided) or not is_complex)


def _dft_shape(node: Node) -> Specs:
    data, found = node.input(0), _transform_of(node)
    inverse, onesided = node.integer("inverse", 0), node.integer("onesided", 0)
    parts = 1 if onesided and inverse else 2
    if found.axis is None:
        return [(data.dtype, (*(None,) * (data.rank - 1), parts))]
    shape: list[int | None] = [*data.shape[:-1], parts]
    length = found.length
    is_half = onesided and not inverse and length is not None
    shape[found.axis] = length // 2 + 1 if is_half and length is not None else length
    return [(data.dtype, tuple(shape))]


def fft_flop(length: int, is_real: bool) -> int:
    """Operations of one fast Fourier transform: 5·n·log2 n, half of that if one side is real.

    The count of the radix-2 algorithm (n/2·log2 n butterflies of one complex product, 6,
    and two complex sums, 4), by which FFTW's authors rate transforms of any length
    (http://www.fftw.org/speed/method.html). Rounded up. A direct transform would take
    8·n² - 2·n; runtimes use it for no length that matters.
    """
    return math.ceil((2.5 if is_real else 5.0) * length * math.log2(max(length, 1)))


@operator("DFT", shape=_dft_shape, not_weights=(1, 2))
def dft(node: Node) -> Cost:
    """5·n·log2 n operations for n points, 2.5·n·log2 n if real; the inverse divides its output."""
    data, found = node.input(0), _transform_of(node)
    axis, is_inverse = found.axis, node.integer("inverse", 0)
    if axis is None or found.length is None:
        # The output's shape was given: the axis that differs, else ONNX's default.
        sizes = zip(data.shape[:-1], node.output.shape[:-1], strict=True)
        axis = next((i for i, (a, b) in enumerate(sizes) if a != b), max(data.rank - 2, 0))
    length = found.length if found.length is not None else node.output.shape[axis]
    n_transforms = math.prod(data.shape[:-1]) // max(data.shape[axis], 1)
    work = n_transforms * fft_flop(length, found.is_real)
    return Cost(simple=work + (node.output.n_elements if is_inverse else 0))


def _frame_length(node: Node) -> int | None:
    """Points of each frame of an STFT; None where they depend on data."""
    signal = node.input(0)
    if node.has(3):
        return known_int(node, 3)
    return node.input(2).n_elements if node.has(2) else signal.shape[1]


def _stft_shape(node: Node) -> Specs:
    """[batch, frames, frequencies, 2] of a signal [batch, length, 1 or 2]."""
    signal = check_rank(node, 0, 2, 3)
    if signal.rank == 3 and signal.shape[2] not in (1, 2):
        raise node.error(f"needs [batch, length, 1 or 2], the input is {list(signal.shape)}")
    onesided = node.integer("onesided", 1)
    if onesided and signal.shape[2:] == (2,):
        raise node.error("a one-sided transform needs a real signal")
    node.input(1)
    length, step = _frame_length(node), known_int(node, 1)
    if length is None:
        return [(signal.dtype, (signal.shape[0], None, None, 2))]
    check_length(node, 2, length, "points of a frame")
    if not 0 < length <= signal.shape[1] or (step is not None and step < 1):
        raise node.error(f"frames of {length} in steps of {step} over {signal.shape[1]} points")
    n_frames = None if step is None else (signal.shape[1] - length) // step + 1
    n_bins = length // 2 + 1 if onesided else length
    return [(signal.dtype, (signal.shape[0], n_frames, n_bins, 2))]


@operator("STFT", shape=_stft_shape, not_weights=(1, 2, 3))
def stft(node: Node) -> Cost:
    """As DFT for each frame, 1 a point for the window."""
    signal, batch, n_frames = node.input(0), node.output.shape[0], node.output.shape[1]
    length = _frame_length(node)
    if length is None:
        n_bins = node.output.shape[2]
        length = 2 * (n_bins - 1) if node.integer("onesided", 1) else n_bins
    is_complex = signal.shape[2:] == (2,)
    window = length * (2 if is_complex else 1) if node.has(2) else 0
    return Cost(simple=batch * n_frames * (fft_flop(length, not is_complex) + window))


def _window_shape(node: Node) -> Specs:
    node.input(0)
    size = known_int(node, 0)
    if size is not None and size < 0:
        raise node.error(f"a window of {size} points")
    return [(element_type(node, "output_datatype", FLOAT32), (size,))]


@operator(*_WINDOWS, shape=_window_shape, not_weights=(0,))
def window(node: Node) -> Cost:
    """a - b·cos(c·i): 3 operations and a function for each point; Blackman: twice."""
    n = node.output.n_elements
    if node.op_type == "BlackmanWindow":
        return Cost(simple=6 * n, functions=2 * n)
    return Cost(simple=3 * n, functions=n)


def _mel_weight_matrix_shape(node: Node) -> Specs:
    """[frequencies of a one-sided transform, mel bins]."""
    node.input(4)
    n_bins, length = known_int(node, 0), known_int(node, 1)
    if (n_bins is not None and n_bins < 1) or (length is not None and length < 1):
        raise node.error(f"{n_bins} mel bins of a transform over {length} points")
    n_frequencies = None if length is None else length // 2 + 1
    return [(element_type(node, "output_datatype", FLOAT32), (n_frequencies, n_bins))]


@operator("MelWeightMatrix", shape=_mel_weight_matrix_shape, not_weights=(0, 1, 2, 3, 4))
def mel_weight_matrix(node: Node) -> Cost:
    """2 operations for each element; 6 and a function for each of n + 2 edges; 2 logarithms."""
    n_edges = node.output.shape[1] + 2
    return Cost(simple=2 * node.output.n_elements + 6 * n_edges, functions=n_edges + 2)
