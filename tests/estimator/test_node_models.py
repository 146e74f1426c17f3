"""The node tests of the onnx package: every operator at the versions that it tests.

Real tensors come with them, so shapes, element types and bytes are compared with what
they really are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec
import onnx
import pytest

from mansard.core.errors import ModelError
from mansard.estimator.reading.graphs import TABLES
from mansard.estimator.shape_inference.inference import InferredNetwork
from tests.estimator.node_cases import (
    NodeCase,
    Real,
    described,
    infer_case,
    is_plain,
    node_cases,
    open_dimensions,
    real,
    rows_of,
    say,
)

# Tests whose shapes cannot be known, and a part of the reason.
REFUSED: Mapping[str, str] = {
    # The number of turns follows from 16-bit floats, whose values are not read.
    "test_range_float16_type_positive_delta_expanded": "how often it runs is unknown",
    "test_range_bfloat16_type_positive_delta_expanded": "how often it runs is unknown",
}


class Outcome(msgspec.Struct, frozen=True):
    """How a case ended: with these tensors, or for this reason without some of them."""

    network: InferredNetwork | None
    dims: Mapping[str, int]
    reason: str | None


def run(case: NodeCase) -> Outcome:
    """Shapes of the case; sizes that depend on data are given where they are asked for."""
    try:
        _, network = infer_case(case)
        dims = open_dimensions(case, network)
        if dims:
            _, network = infer_case(case, dims)
    except ModelError as error:
        return Outcome(None, {}, error.what)
    lost = (tensor.unknown for node in network.nodes for tensor in node.outputs)
    return Outcome(network, dims, next((reason for reason in lost if reason), None))


def wrong_outputs(case: NodeCase, network: InferredNetwork) -> list[str]:
    return [
        f"{case.name}: {name} is {described(network.tensors[name])}, really {real(held)}"
        for name, held in case.outputs.items()
        if name and described(network.tensors[name]) != real(held)
    ]


def test_shapes_of_all_node_tests(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    unexpected: list[str] = []
    for case in node_cases():
        outcome = run(case)
        counts["steered"] += bool(case.steering)
        counts["given"] += bool(outcome.dims)
        if outcome.reason is not None or outcome.network is None:
            counts["refused"] += 1
            expected = REFUSED.get(case.name, "no such reason")
            if expected not in (outcome.reason or ""):
                unexpected.append(f"{case.name}: {outcome.reason}")
            continue
        mistakes = wrong_outputs(case, outcome.network)
        counts["wrong" if mistakes else "right"] += 1
        wrong += mistakes
    say(
        capsys,
        f"node tests: {len(node_cases())}; shapes right {counts['right']}, wrong "
        f"{counts['wrong']}, refused {counts['refused']}; told sizes that depend on data "
        f"{counts['given']}, with stored shapes {counts['steered']}",
    )
    assert not wrong
    assert not unexpected
    assert counts["refused"] <= len(REFUSED)
    assert counts["right"] >= 0.99 * len(node_cases()) > 1700
    # Those whose sizes depend on data said so, and were right when told.
    assert counts["given"] >= 30


def test_all_node_tests_are_scored_or_refused_for_their_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused: dict[str, str] = {}
    for case in node_cases():
        try:
            rows_of(case)
        except ModelError as error:
            refused[case.name] = error.what
    say(capsys, f"node tests scored: {len(node_cases()) - len(refused)}, refused {len(refused)}")
    unexpected = {
        name: what for name, what in refused.items() if REFUSED.get(name, "no reason") not in what
    }
    assert not unexpected
    assert refused.keys() <= REFUSED.keys()


def n_bytes(held: object) -> int:
    found = real(held)
    assert isinstance(found, Real)
    return found.n_bytes


def test_bytes_of_the_rows_are_those_of_the_real_tensors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for case in filter(is_plain, node_cases()):
        if case.name in REFUSED:
            continue
        row, *inner = rows_of(case)
        if inner:
            counts["with graphs"] += 1
        elif len(case.steering) == len(case.inputs):
            # Everything was stored: computed beforehand, it costs nothing.
            counts["constant"] += 1
            if row.traffic_bytes or row.work_flop:
                wrong.append(f"{case.name}: {row.traffic_bytes} bytes, {row.work_flop} FLOP")
        else:
            node = onnx.ModelProto.FromString(case.model).graph.node[0]
            read = {name for name in node.input if name}
            expected = (
                sum(n_bytes(case.inputs[name]) for name in read),
                sum(n_bytes(held) for name, held in case.outputs.items() if name),
            )
            if row.op_type in ("EyeLike", "OptionalHasElement", "Shape", "Size"):
                expected = (0, 0)  # known before any data is there
            counts["compared"] += 1
            # What was stored may be weights of the layer, which have a column of their own.
            # Tables in attributes (``test_ml_models``) are no tensors of the case.
            is_table = (node.domain, node.op_type) in TABLES
            stored_bytes = 0 if is_table else row.weight_bytes or 0
            found = ((row.input_bytes or 0) + stored_bytes, row.output_bytes)
            if found != expected:
                wrong.append(f"{case.name}: {found} bytes, really {expected}")
    say(capsys, f"rows of node tests: {dict(counts)}, wrong {len(wrong)}")
    assert not wrong
    assert counts["compared"] >= 1200
