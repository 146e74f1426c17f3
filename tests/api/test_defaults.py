"""Scores, predictions and measurements of one network are of the same dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from mansard.api.scores import score as score_files
from mansard.api.scores import score_batches
from mansard.core.errors import UsageError
from mansard.estimator import Given, Settings
from mansard.estimator.scoring import load_network, with_defaults
from mansard.inference.preparing.networks import prepare
from mansard.sweeps.reporter import SILENT
from tests.api.test_bench_networks import Listening
from tests.estimator.models import text_model

# Named batch and width, so that both have to be completed or given.
_ROWS = "g (float[batch,width] x) => (float[batch,width] y) { y = Relu(x) }"
_IMAGE = (
    "g (float[3,32,32] x) => (float[1,8,30,30] y) <float[8,3,3,3] w, int64[1] z = {0}> "
    "{ u = Unsqueeze(x, z) y = Conv(u, w) }"
)


def rows(folder: Path, text: str = _ROWS) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(text_model(text))
    return path


@pytest.mark.parametrize(
    ("batch", "dims", "sizes"),
    [
        (None, {"width": 5}, {"batch": 1, "width": 5}),
        (4, {"width": 5}, {"batch": 4, "width": 5}),
        (None, {"batch": 3, "width": 5}, {"batch": 3, "width": 5}),
        (None, {"x[1]": 5}, {"batch": 1, "width": 5}),
    ],
)
def test_every_command_completes_dimensions_alike(
    tmp_path: Path, batch: int | None, dims: Mapping[str, int], sizes: Mapping[str, int]
) -> None:
    path, settings = rows(tmp_path), Settings(Given(dims=dims))
    batches = () if batch is None else (batch,)
    (scored,) = score_files([path], settings, batches=batches).scores
    (predicted,) = score_batches(path, (batch,), settings, SILENT)
    prepared = prepare(path, seed=0, batch=batch, dims=dims)
    assert scored.dimensions == predicted.dimensions == prepared.dimensions == sizes
    assert scored.batch == predicted.batch == prepared.batch == sizes["batch"]


@pytest.mark.parametrize(
    ("dims", "length"),
    [
        ({}, 50),
        ({"sequence": 7}, 7),
        ({"readings[1]": 7}, 7),
        ({"of_another_network": 7}, 50),
    ],
)
def test_the_usual_dimensions_of_the_zoo_yield_to_what_is_given(
    dims: Mapping[str, int], length: int
) -> None:
    (predicted,) = score_batches("lstm", (2,), Settings(Given(dims=dims)), SILENT)
    assert predicted.dimensions == {"batch": 2, "sequence": length}


def test_a_batch_that_is_given_twice_is_refused_by_every_command(tmp_path: Path) -> None:
    path, dims = rows(tmp_path), {"batch": 3, "width": 5}
    settings = Settings(Given(dims=dims))
    with pytest.raises(UsageError, match="'batch' is the batch: it is given as 3"):
        score_files([path], settings, batches=[4])
    with pytest.raises(UsageError, match="'batch' is the batch: it is given as 3"):
        prepare(path, seed=0, batch=4, dims=dims)
    with pytest.raises(UsageError, match="'batch' is the batch: it is given as 3"):
        with_defaults(load_network(path), Given(4, dims))


def test_a_network_without_a_batch_is_one_item_in_every_command(tmp_path: Path) -> None:
    path, words = rows(tmp_path, _IMAGE), "takes it as channels"

    reporter = Listening()
    (scored,) = score_files([path]).scores
    (predicted,) = score_batches(path, (1,), Settings(), reporter)
    prepared = prepare(path, seed=0)
    assert scored.batch == predicted.batch == prepared.batch == 1
    assert words in scored.notes[-1]
    assert words in reporter.notes[-1]
    assert words in prepared.notes[-1]
