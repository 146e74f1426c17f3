"""Small hard networks against what ONNX Runtime really does with them."""

from __future__ import annotations

import pytest
from runtime_truth.asking import Given
from runtime_truth.comparing import compare
from runtime_truth.feeds import make_feeds
from runtime_truth.truth import find_truth

from mansard.inference.preparing.labelling import label_copy
from tests.estimator.runtime_cases import NETWORKS

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: there is no truth")


@pytest.mark.parametrize("name", NETWORKS)
def test_work_and_bytes_are_those_of_the_real_shapes(name: str) -> None:
    network = NETWORKS[name]
    labelled = label_copy(network.model())
    feeds = make_feeds(labelled.model, network.dims, network.values)
    found = compare(
        labelled,
        find_truth(labelled, feeds, network.values),
        Given(network.dims, network.values),
    )

    assert found.differences == ()
    assert found.unchecked == ()
    assert found.told == network.asks
    assert found.ours.flop == found.real.flop == network.flop
    assert found.ours.moved_bytes == found.real.moved_bytes > 0
