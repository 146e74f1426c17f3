"""Networks by the program trtexec through the API, on a simulated board; the program stands in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from mansard import api
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import PREDICTION_SCHEMA
from mansard.analytics.models.predict.measured import measured_networks
from mansard.analytics.models.scaling.observations import measured_observations
from mansard.core.records import EngineBuild
from mansard.core.storage.documents import read_document
from mansard.simulator import create_board
from tests.inference import stand_in
from tests.inference.small_networks import perceptron

pytestmark = pytest.mark.usefixtures("before_others")


@pytest.fixture
def request_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[api.MeasureRequest]:
    (tmp_path / "bin").mkdir()
    stand_in.put_program(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    perceptron(tmp_path / "mlp.onnx", batch="N")
    with stand_in.played("10.3.0", device="orin"):
        yield api.MeasureRequest(
            models=(str(tmp_path / "mlp.onnx"),),
            settings=api.NetworkSettings(engine="trtexec", batches=(1, 2)),
            profile="brief",
            is_local=True,
            board=create_board("agx-orin", tmp_path / "boards"),
            runs=tmp_path / "runs",
        )


def bound_by_host(runs: Path) -> list[str]:
    """The remarks on rows that the host bounds, as tables show them; empty on others."""
    times = measured_networks(ingest(runs), pl.DataFrame(schema=PREDICTION_SCHEMA))
    return [row.remark if "bound by the host" in row.remark else "" for row in times]


def test_a_time_that_the_host_bounds_is_listed_and_in_no_model(
    request_: api.MeasureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_QUERY_MS", "2")
    monkeypatch.setenv("STAND_IN_ENQUEUE_MS", "2.5")
    result = api.measure_networks(request_)
    result.check()  # it is measured, and no failure
    assert [set(one.row.seconds_s) for one in result.rows] == [{2e-3}] * 2
    why = "bound by the host (enqueue 2.5 > compute 2 ms); a lower estimate of the GPU's own time"
    remarks = bound_by_host(request_.runs)
    assert len(remarks) == 2
    assert all(why in remark for remark in remarks)
    observed = measured_observations(ingest(request_.runs))
    assert observed.rows.is_empty()
    assert [note for note in observed.notes if "bound by the host" in note]


def test_the_program_builds_and_times_each_batch(request_: api.MeasureRequest) -> None:
    rows = [found.row for found in api.measure_networks(request_).rows]
    assert sorted(row.batch or 0 for row in rows) == [1, 2]
    for row in rows:
        assert row.failure is None
        assert (row.engine, row.engine_version) == ("trtexec", "10.3.0+stand-in")
        assert row.source == "simulated"
        assert row.options["data_transfers"] == "off"
        assert row.seconds_s
        assert row.layers is not None
        # Gemm, Relu, Gemm: the first two are one layer.
        assert [layer.nodes for layer in row.layers] == [(0, 1), (2,)]
    assert all(why == "" for why in bound_by_host(request_.runs))
    documents = (request_.runs / "engines").glob("*.engine.json")
    builds = [read_document(path, EngineBuild) for path in documents]
    assert {build.engine for build in builds} == {"trtexec"}
    assert all(build.failure is None for build in builds)
