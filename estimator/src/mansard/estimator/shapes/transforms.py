"""Fourier transforms and what goes with them.

https://onnx.ai/onnx/operators/onnx__DFT.html, …__STFT, …__HannWindow, …__MelWeightMatrix
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mansard.estimator.element_types import FLOAT32
from mansard.estimator.shapes.checks import check_length, check_rank, known_int
from mansard.estimator.shapes.elementwise import element_type
from mansard.estimator.shapes.registry import Spec, rule
from mansard.estimator.tensors import Node

WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")


class Transform(msgspec.Struct, frozen=True):
    """A DFT. ``axis``, ``length``: along which axis, over how many points; None: not known.

    ``is_real``: its input or its output is real.
    """

    axis: int | None
    length: int | None
    is_real: bool


def transform_of(node: Node) -> Transform:
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
            return Transform(None, None, bool(onesided) or not is_complex)
        axis = given
    place = data.axis(axis)
    if place == data.rank - 1:
        raise node.error(f"axis {axis} of {list(data.shape)} holds real and imaginary parts")
    if node.has(1):
        length = known_int(node, 1)
        if length is not None and length < 1:
            raise node.error(f"a transform over {length} points")
    else:
        size = data.shape[place]
        length = 2 * (size - 1) if onesided and inverse else size
    return Transform(place, length, bool(onesided) or not is_complex)


@rule("DFT")
def _dft(node: Node) -> Sequence[Spec]:
    data, found = node.input(0), transform_of(node)
    inverse, onesided = node.integer("inverse", 0), node.integer("onesided", 0)
    parts = 1 if onesided and inverse else 2
    if found.axis is None:
        return [(data.dtype, (*(None,) * (data.rank - 1), parts))]
    shape: list[int | None] = [*data.shape[:-1], parts]
    length = found.length
    is_half = onesided and not inverse and length is not None
    shape[found.axis] = length // 2 + 1 if is_half and length is not None else length
    return [(data.dtype, tuple(shape))]


def frame_length(node: Node) -> int | None:
    """Points of each frame of an STFT; None where they depend on data."""
    signal = node.input(0)
    if node.has(3):
        return known_int(node, 3)
    return node.input(2).n_elements if node.has(2) else signal.shape[1]


@rule("STFT")
def _stft(node: Node) -> Sequence[Spec]:
    """[batch, frames, frequencies, 2] of a signal [batch, length, 1 or 2]."""
    signal = node.input(0)
    check_rank(node, 0, 2, 3)
    if signal.rank == 3 and signal.shape[2] not in (1, 2):
        raise node.error(f"needs [batch, length, 1 or 2], the input is {list(signal.shape)}")
    onesided = node.integer("onesided", 1)
    if onesided and signal.shape[2:] == (2,):
        raise node.error("a one-sided transform needs a real signal")
    node.input(1)
    length, step = frame_length(node), known_int(node, 1)
    if length is None:
        return [(signal.dtype, (signal.shape[0], None, None, 2))]
    check_length(node, 2, length, "points of a frame")
    if not 0 < length <= signal.shape[1] or (step is not None and step < 1):
        raise node.error(f"frames of {length} in steps of {step} over {signal.shape[1]} points")
    n_frames = None if step is None else (signal.shape[1] - length) // step + 1
    n_bins = length // 2 + 1 if onesided else length
    return [(signal.dtype, (signal.shape[0], n_frames, n_bins, 2))]


@rule(*WINDOWS)
def _window(node: Node) -> Sequence[Spec]:
    node.input(0)
    size = known_int(node, 0)
    if size is not None and size < 0:
        raise node.error(f"a window of {size} points")
    return [(element_type(node, "output_datatype", FLOAT32), (size,))]


@rule("MelWeightMatrix")
def _mel_weight_matrix(node: Node) -> Sequence[Spec]:
    """[frequencies of a one-sided transform, mel bins]."""
    node.input(4)
    n_bins, length = known_int(node, 0), known_int(node, 1)
    if (n_bins is not None and n_bins < 1) or (length is not None and length < 1):
        raise node.error(f"{n_bins} mel bins of a transform over {length} points")
    n_frequencies = None if length is None else length // 2 + 1
    return [(element_type(node, "output_datatype", FLOAT32), (n_frequencies, n_bins))]
