"""Which estimate counters are held against: that of a file, a score, the zoo, and which batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mansard import api
from mansard.analytics.data.scores import keep_scores
from mansard.core.errors import UsageError
from mansard.estimator import score, zoo
from tests.analytics.ncu_exports import SASS, raw_page
from tests.inference.small_networks import perceptron

METRICS = {
    "gpu__time_duration.sum": "ns",
    **{SASS.format(op): "inst" for op in ("ffma", "fadd", "fmul")},
    "sm__inst_executed_pipe_tensor.sum": "inst",
}
Keep = Callable[..., None]


@pytest.fixture
def keep(tmp_path: Path) -> Keep:
    """Imports the counters of a network: one kernel of 2000 FLOP."""
    page = raw_page(METRICS, [["1,000", "1,000", "0", "0", "0"]], ["gemm"])
    (tmp_path / "export.csv").write_text(page)

    def run(network: str, batch: int | None = 1) -> None:
        origin = api.ExportOrigin(
            citation="A. Author", device="board", network=network, batch=batch, precision="fp32"
        )
        api.import_counters([tmp_path / "export.csv"], origin, runs=tmp_path / "runs")

    return run


def flop_of(path: Path, batch: int = 1) -> int:
    layers = score(path, batch=batch, precision="fp32").layers
    return sum(layer.work_flop or 0 for layer in layers)


def test_a_single_file_is_of_the_only_network_that_is_left(keep: Keep, tmp_path: Path) -> None:
    keep("alexnet")
    keep("mine")
    perceptron(tmp_path / "other.onnx", batch="N")
    checked = api.check_counters(tmp_path / "runs", models=[tmp_path / "other.onnx"])
    of_zoo = sum(each.work_flop or 0 for each in score(zoo.read("alexnet"), batch=1).layers)
    assert {one.network: one.estimated_flop for one in checked} == {
        "alexnet": of_zoo,
        "mine": flop_of(tmp_path / "other.onnx"),
    }
    keep("third")
    (one,) = api.check_counters(tmp_path / "runs", models=[tmp_path / "other.onnx"])
    assert one.network == "alexnet"  # it may be of either
    (one,) = api.check_counters(
        tmp_path / "runs", network="third", models=[tmp_path / "other.onnx"]
    )
    assert one.network == "third"


def test_a_batch_that_is_not_said_chooses_the_score(keep: Keep, tmp_path: Path) -> None:
    path = tmp_path / "mine.onnx"
    perceptron(path, batch="N")
    keep("mine", batch=None)
    scores = [score(path, batch=batch, precision="fp32") for batch in (1, 8)]
    keep_scores(tmp_path / "runs", scores)
    with pytest.raises(UsageError, match="batch 1 in fp32; batch 8 in fp32"):
        api.check_counters(tmp_path / "runs")
    (one,) = api.check_counters(tmp_path / "runs", batch=8)
    assert one.estimated_flop == flop_of(path, 8)
    with pytest.raises(UsageError, match="has an estimate"):
        api.check_counters(tmp_path / "runs", batch=4)


def test_pagodas_rule_stands_beside_ours(keep: Keep, tmp_path: Path) -> None:
    keep("alexnet")
    (one,) = api.check_counters(tmp_path / "runs")
    # 2·1000 FLOP, and no instruction of the tensor pipe: both rules are one.
    assert (one.counted_flop, one.pagoda_flop) == (2000, 2000)
    assert sum(part.pagoda_flop or 0 for part in one.parts) in (0, 2000)
