"""The zoo's networks against what ONNX Runtime really does with them, node by node."""

from __future__ import annotations

import onnx
import pytest
from runtime_truth.asking import Given
from runtime_truth.comparing import compare
from runtime_truth.feeds import make_feeds, open_places
from runtime_truth.truth import find_truth

from mansard.estimator import zoo
from mansard.inference.preparing.labelling import label_copy
from tests.estimator.zoo_sessions import SIBLINGS

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: there is no truth")

_BATCH, _LENGTH = 2, 7


@pytest.mark.parametrize("name", [name for name in zoo.names() if name not in SIBLINGS])
def test_every_node_does_what_it_is_said_to(name: str) -> None:
    model = onnx.load_from_string(zoo.read(name))
    sizes = {place: _BATCH if axis == 0 else _LENGTH for place, _, axis, _ in open_places(model)}
    labelled = label_copy(model)
    truth = find_truth(labelled, make_feeds(labelled.model, sizes, {}))
    found = compare(labelled, truth, Given(sizes))

    assert found.differences == ()
    assert found.unchecked == ()
    assert found.told == {}
    assert found.ours.flop == found.real.flop > 0
    assert found.ours.moved_bytes == found.real.moved_bytes > 0
