"""Fused and cache-aware bytes against TensorRT's engines and an A100's counters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean, median

import pytest
from recorded.engines import CASES, Case
from recorded.operators import (
    A100_CACHE_BYTES,
    convolutions,
    linear_network,
    linears,
    relu_network,
    relus,
)

from mansard.estimator.fusion import fuse
from mansard.estimator.model import Given
from mansard.estimator.score_context import find_operators
from mansard.estimator.scoring import Loaded, load
from mansard.estimator.shape_inference.binding import bind
from mansard.estimator.shape_inference.inference import infer_shapes
from mansard.estimator.traffic import cached_traffic, fused_traffic, transformed_filter_bytes
from tests.estimator.fusing import fuse_model


def check(case: Case, trtexec: Path) -> None:
    """Our bytes and kernels of the case's network against those of its engine."""
    engine = case.read(trtexec)
    fused = fuse_model(case.draw(), case.precision, case.batch)
    casts = [
        sum(moved)
        for kernel, moved in zip(fused.kernels(), fused.moved(), strict=True)
        if kernel == "Cast"
    ]
    assert bool(casts) == case.has_casts
    ours = fused.total_bytes() - sum(casts)
    assert ours == pytest.approx(engine.kernel_bytes, rel=case.tolerance)
    assert fused.total_bytes() == pytest.approx(engine.all_bytes, rel=0.1)
    assert len(fused.kernels()) - len(casts) == pytest.approx(engine.n_kernels, abs=1)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.is_here], ids=lambda case: case.name
)
def test_fused_bytes_are_those_of_tensorrts_engine(case: Case, shared_data: Path) -> None:
    check(case, shared_data / "trtexec")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.is_here], ids=lambda case: case.name
)
def test_fused_bytes_are_those_of_an_int8_engine(case: Case) -> None:
    check(case, Path())


def cached_and_naive(loaded: Loaded, dims: Mapping[str, int]) -> tuple[int, int]:
    """Cache-aware bytes, and what is read and written in all."""
    binding = bind(loaded.model, Given(dims=dims))
    network = infer_shapes(loaded.model, binding, loaded.prepared)
    fusion = fuse(network.nodes, ("y",), find_operators(network.nodes), None)
    (moved,) = fused_traffic(fusion).values()
    (cached,) = cached_traffic(fusion, A100_CACHE_BYTES).values()
    return cached, moved.read_bytes + moved.write_bytes


@pytest.mark.shared_data
def test_relus_move_what_an_a100_counted(shared_data: Path) -> None:
    loaded = load(relu_network(), "relu")
    errors = []
    for operator in relus(shared_data):
        modelled, naive = cached_and_naive(loaded, operator.dims)
        if naive > 2_000_000:  # below, the counters' own noise shows
            errors.append(abs(modelled / operator.memory_bytes - 1))
    assert len(errors) > 3000
    assert mean(errors) < 0.003  # measured 0.0015


@pytest.mark.shared_data
def test_linear_layers_move_what_an_a100_counted(shared_data: Path) -> None:
    loaded = load(linear_network(), "linear")
    errors = [
        abs(cached_and_naive(loaded, operator.dims)[0] / operator.memory_bytes - 1)
        for operator in linears(shared_data)
    ]
    assert len(errors) > 1300
    assert median(errors) < 0.005  # measured 0.0011


def test_convolutions_move_their_transformed_filters_under_winograd() -> None:
    errors: list[float] = []
    plain: list[float] = []
    for convolution in convolutions():
        if convolution.algorithm != "winograd" or not convolution.is_held_out:
            continue
        fused = fuse_model(convolution.network())
        (cached,) = cached_traffic(fused.fusion, A100_CACHE_BYTES).values()
        made = transformed_filter_bytes(fused.nodes[0])
        if fused.total_bytes() + made <= A100_CACHE_BYTES:
            plain.append(abs(cached / convolution.memory_bytes - 1))
            errors.append(abs((cached + made) / convolution.memory_bytes - 1))
    assert len(errors) == 15
    assert median(errors) < 0.015  # measured 0.009
    assert median(plain) > 0.2  # measured 0.234
