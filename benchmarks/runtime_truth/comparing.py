"""The estimator's rows beside what ONNX Runtime did, node by node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mansard.core.errors import MansardError
from mansard.core.records import LayerScore, ModelScore
from mansard.estimator import score

from .feeds import Value
from .labelling import Labelled, label_of
from .truth import Truth

_FLAG = re.compile(r"--(dim|trip) '?([^\s'=]+)=N'?")
_MOST_QUESTIONS = 50


@dataclass(frozen=True)
class Given:
    """What the estimator is told of a network, as a person would."""

    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    trips: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """One node whose figures differ; ``flop`` and ``moved_bytes`` are (ours, real)."""

    label: int
    op_type: str
    runs: tuple[int, int]
    flop: tuple[int, int]
    moved_bytes: tuple[int, int]


@dataclass(frozen=True)
class Comparison:
    """A whole network: (ours, real) of each count, and the nodes that differ.

    ``unchecked``: operators to which we give multiply-adds and the truth has no rule for.
    ``told``: what the estimator asked for because it depends on data.
    """

    flop: tuple[int, int]
    moved_bytes: tuple[int, int]
    tensor_bytes: int
    differences: tuple[Difference, ...]
    unchecked: tuple[str, ...]
    told: tuple[str, ...]


def compare(labelled: Labelled, truth: Truth, given: Given) -> Comparison:
    """Score ``labelled`` and lay its rows beside ``truth``.

    Sizes and counts that depend on data are taken from the run, as the estimator asks
    for them. Raises MansardError where it refuses the network all the same.
    """
    source = labelled.model.SerializeToString()
    scored, told = _score(source, labelled, truth, given)
    rows = {label_of(row.name): row for row in scored.layers}
    rows.pop(None, None)
    differences, unchecked = [], set()
    ours_flop = real_flop = ours_bytes = real_bytes = whole = 0
    for number in sorted(set(truth.nodes) | {n for n in rows if n is not None}):
        one = _difference(number, rows.get(number), labelled, truth)
        real = truth.nodes.get(number)
        if real is not None and real.flop is None:
            if one.flop[0]:
                unchecked.add(one.op_type)
            one = replace(one, flop=(0, 0))
        ours_flop += one.flop[0]
        real_flop += one.flop[1]
        ours_bytes += one.moved_bytes[0]
        real_bytes += one.moved_bytes[1]
        whole += real.tensor_bytes if real is not None else 0
        if one.flop[0] != one.flop[1] or one.moved_bytes[0] != one.moved_bytes[1]:
            differences.append(one)
    return Comparison(
        (ours_flop, real_flop),
        (ours_bytes, real_bytes),
        whole,
        tuple(differences),
        tuple(sorted(unchecked)),
        told,
    )


def _difference(
    number: int, row: LayerScore | None, labelled: Labelled, truth: Truth
) -> Difference:
    real = truth.nodes.get(number)
    ours_flop = (row.multiply_add_flop or 0) if row is not None else 0
    ours_bytes = (row.traffic_bytes or 0) if row is not None else 0
    return Difference(
        number,
        labelled.nodes[number].op_type,
        (row.runs if row is not None else 0, real.runs if real is not None else 0),
        (ours_flop, (real.flop or 0) if real is not None else 0),
        (ours_bytes, real.moved_bytes if real is not None else 0),
    )


def _score(
    source: bytes, labelled: Labelled, truth: Truth, given: Given
) -> tuple[ModelScore, tuple[str, ...]]:
    dims, trips = dict(given.dims), dict(given.trips)
    told: list[str] = []
    for _ in range(_MOST_QUESTIONS):
        try:
            scored = score(source, name="model", dims=dims, values=given.values, trips=trips)
        except MansardError as error:
            answers = _answers(str(error), labelled, truth)
            if not answers.keys() - set(told):
                raise
            for flag, number in answers.items():
                kind, _, name = flag.partition(" ")
                (dims if kind == "dim" else trips)[name] = number
                told.append(flag)
        else:
            return scored, tuple(told)
    raise RuntimeError(f"the estimator asked more than {_MOST_QUESTIONS} times")


def _answers(message: str, labelled: Labelled, truth: Truth) -> dict[str, int]:
    """What the run says to each question in a message: sizes by ``tensor[axis]``, trips."""
    answers: dict[str, int] = {}
    for kind, name in _FLAG.findall(message):
        number = _size(name, labelled, truth) if kind == "dim" else _trips(name, labelled, truth)
        if number is not None:
            answers[f"{kind} {name}"] = number
    return answers


def _size(place: str, labelled: Labelled, truth: Truth) -> int | None:
    tensor, _, axis = place.removesuffix("]").rpartition("[")
    for kernel in truth.kernels:
        if kernel.label is None:
            continue
        names = [name for name in labelled.nodes[kernel.label].output if name]
        if tensor in names and len(names) == len(kernel.outputs):
            return kernel.outputs[names.index(tensor)].shape[int(axis)]
    return None


def _trips(name: str, labelled: Labelled, truth: Truth) -> int | None:
    """Rounds of a loop: how often the first node of its body ran for each run of its own."""
    for number, node in enumerate(labelled.nodes):
        if name in (node.name, *node.output) and number in truth.nodes:
            inside = truth.nodes.get(number + 1)
            return inside.runs // truth.nodes[number].runs if inside is not None else 0
    return None
