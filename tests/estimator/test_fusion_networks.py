"""What holds for the groups of every network of the zoo."""

from __future__ import annotations

import pytest

from mansard.estimator import zoo
from mansard.estimator.model import Given
from mansard.estimator.score_context import find_operators
from mansard.estimator.scoring import Loaded, load
from mansard.estimator.traffic import cached_traffic, fused_traffic, traffic
from tests.estimator.fusing import Fused, fuse_loaded

CACHE_BYTES = 2 * 1024 * 1024


def given(loaded: Loaded) -> Given:
    """Batch 1, and 16 for whatever else is open."""
    names = {name for source in loaded.model.inputs for name in source.dimensions or ()}
    open_names = {name for name in names if isinstance(name, str)} - {"batch"}
    return Given(batch=1, dims=dict.fromkeys(open_names, 16))


@pytest.fixture(params=zoo.names())
def fused(request: pytest.FixtureRequest) -> Fused:
    loaded = load(zoo.read(request.param), request.param)
    return fuse_loaded(loaded, given(loaded))


def test_groups_partition_the_nodes_and_run_after_what_they_need(fused: Fused) -> None:
    fusion = fused.fusion
    placed = [index for group in fusion.groups for index in group.indexes] + list(fusion.idle)
    assert sorted(placed) == sorted(node.index for node in fused.nodes)
    written_by = {
        storage: step
        for step, group in reversed(list(enumerate(fusion.groups)))
        for storage, _ in group.writes
    }
    for step, group in enumerate(fusion.groups):
        assert group.head in group.indexes
        assert all(written_by.get(storage, -1) < step for storage, _ in group.reads)


def test_fusing_and_a_cache_only_take_bytes_away(fused: Fused) -> None:
    operators = find_operators(fused.nodes)
    algorithmic = 0
    for node in fused.nodes:
        operator = operators[node.domain, node.op_type]
        assert operator is not None
        algorithmic += traffic(node, operator, None).traffic_bytes
    moved = fused_traffic(fused.fusion)
    assert moved.keys() == {node.index for node in fused.nodes}
    total = sum(each.read_bytes + each.write_bytes for each in moved.values())
    assert total == fused.total_bytes() < algorithmic
    cached = cached_traffic(fused.fusion, CACHE_BYTES)
    assert cached.keys() == moved.keys()
    assert 0 < sum(cached.values()) <= total
    assert sum(cached_traffic(fused.fusion, 0).values()) == total


def test_every_weight_is_read_once_or_more(fused: Fused) -> None:
    # What is stored and larger than a vector cannot be folded away.
    stored = {
        weight.name: weight.dtype.size_bytes(weight.n_elements, None)
        for node in fused.nodes
        if not node.is_constant
        for tensor in node.present
        for weight in tensor.weights
        if len(weight.shape) > 1 and weight.dtype.is_float
    }
    read = sum(group.read_bytes for group in fused.fusion.groups)
    picked = sum(
        weight_bytes
        for name, weight_bytes in stored.items()
        if any(
            node.op_type == "Gather" and any(w.name == name for w in node.input(0).weights)
            for node in fused.nodes
        )
    )
    assert read >= sum(stored.values()) - picked
