"""Scoring as a person would: what the estimator asks for is answered from the real run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mansard.core.errors import MansardError
from mansard.core.records import ModelScore
from mansard.estimator import score
from mansard.inference.preparing.labelling import Labelled

from .feeds import Value
from .truth import Truth

_FLAG = re.compile(r"--(dim|trip) '?([^\s'=]+)=N'?")
_MOST_ROUNDS = 50


@dataclass(frozen=True)
class Given:
    """What the estimator is told beforehand."""

    dims: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)


def score_as_asked(
    labelled: Labelled, truth: Truth, given: Given
) -> tuple[ModelScore, dict[str, int]]:
    """The score, and the answers to what was asked for: by ``dim place`` or ``trip name``.

    Raises MansardError where the estimator refuses without a question, or asks again.
    """
    source = labelled.model.SerializeToString()
    told: dict[str, int] = {}
    for _ in range(_MOST_ROUNDS):
        dims = {**given.dims, **_told(told, "dim ")}
        try:
            found = score(
                source, name="model", dims=dims, values=given.values, trips=_told(told, "trip ")
            )
        except MansardError as error:
            answers = _answers(str(error), labelled, truth)
            if answers.keys() <= told.keys():
                raise
            told.update(answers)
        else:
            return found, told
    raise RuntimeError(f"the estimator asked more than {_MOST_ROUNDS} times")


def _told(told: Mapping[str, int], kind: str) -> dict[str, int]:
    return {name.removeprefix(kind): n for name, n in told.items() if name.startswith(kind)}


def _answers(message: str, labelled: Labelled, truth: Truth) -> dict[str, int]:
    answers: dict[str, int] = {}
    for kind, name in _FLAG.findall(message):
        number = _size(name, labelled, truth) if kind == "dim" else _trips(name, labelled, truth)
        if number is not None:
            answers[f"{kind} {name}"] = number
    return answers


def _size(place: str, labelled: Labelled, truth: Truth) -> int | None:
    """The real size at ``tensor[axis]``, of the tensor's first appearance."""
    tensor, _, axis = place.removesuffix("]").rpartition("[")
    for kernel in truth.kernels:
        names = [] if kernel.label is None else labelled.nodes[kernel.label].output
        written = [name for name in names if name]
        if tensor in written and len(written) == len(kernel.outputs):
            return kernel.outputs[written.index(tensor)].shape[int(axis)]
    return None


def _trips(name: str, labelled: Labelled, truth: Truth) -> int | None:
    """Rounds of a loop: runs of the first node in its body for each of its own."""
    for number, node in enumerate(labelled.nodes):
        if name in (node.name, *node.output) and number in truth.nodes:
            inside = truth.nodes.get(number + 1)
            return inside.runs // truth.nodes[number].runs if inside is not None else 0
    return None
