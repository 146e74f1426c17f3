"""What convolutions move besides their tensors where they run as Winograd."""

from __future__ import annotations

import pytest

from mansard.core.records import ModelScore
from mansard.estimator import score
from mansard.estimator.traffic import transformed_filter_bytes
from tests.estimator.fusing import fuse_text
from tests.estimator.models import model

DATA = "float[1,8,16,16] x"


@pytest.mark.parametrize(
    ("convolution", "weights", "expected"),
    [
        ("Conv", "float[32,8,3,3] w", 16 * 8 * 32 * 4),
        ("Conv", "float[33,8,3,3] w", 16 * 8 * 64 * 4),  # in steps of 32 filters
        ("Conv<strides = [1, 1], pads = [1, 1, 1, 1]>", "float[1,8,3,3] w", 16 * 8 * 32 * 4),
        ("Conv<strides = [2, 2]>", "float[32,8,3,3] w", 0),
        ("Conv<dilations = [1, 2]>", "float[32,8,3,3] w", 0),
        ("Conv<group = 8>", "float[32,1,3,3] w", 0),
        ("Conv", "float[32,8,1,1] w", 0),
        ("Conv", "float[32,8,5,5] w", 0),
        ("ConvTranspose", "float[8,32,3,3] w", 0),
    ],
)
def test_filters_of_nine_become_sixteen(convolution: str, weights: str, expected: int) -> None:
    fused = fuse_text(f"y = {convolution}(x, w)", DATA, weights)
    (node,) = fused.nodes
    assert transformed_filter_bytes(node) == expected


TWO = "a = Conv<pads = [1, 1, 1, 1]>(x, v) b = Conv<pads = [1, 1, 1, 1]>(a, v) y = Conv(b, w)"
STORED = "float[8,8,3,3] v, float[64,8,3,3] w"


def scored(precision: str | None = None, cache_bytes: int | None = 1000) -> ModelScore:
    return score(model(TWO, DATA, STORED), precision=precision, cache_bytes=cache_bytes)


def test_a_score_says_it_by_layer() -> None:
    (note,) = scored().notes
    # 16 * 8 * 64 * 4 = 32,768, and half as much twice
    assert note == (
        "cached traffic is 0.0655 MB more where a library runs convolutions of 3 × 3 as Winograd "
        "(fp32 without TF32), for their transformed filters: 0.0328 MB for 'y'; 0.0164 MB for "
        "each of 'a' and 'b'"
    )


@pytest.mark.parametrize("precision", ["tf32", "fp16", "int8"])
def test_tensor_cores_do_not_run_it(precision: str) -> None:
    assert scored(precision).notes == ()


def test_it_is_said_where_cached_traffic_is_counted() -> None:
    assert scored(cache_bytes=None).notes == ()
    training = score(model(TWO, DATA, STORED), phase="training", cache_bytes=1000)
    assert not any("Winograd" in note for note in training.notes)
