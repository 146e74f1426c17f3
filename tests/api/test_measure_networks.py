"""Networks that are run on ONNX Runtime through the API: kept, resumed, and joined with scores."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.core.errors import UsageError

REQUEST = api.MeasureRequest(models=("squeezenet1_1",), profile="brief", is_local=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "runs"
    result = api.measure_networks(msgspec.structs.replace(REQUEST, runs=folder))
    result.check()
    assert len(result.rows) == 1
    return folder


def test_a_network_is_measured_once(runs: Path) -> None:
    before = {path: path.read_bytes() for path in runs.rglob("*.jsonl")}
    (found,) = api.measure_networks(msgspec.structs.replace(REQUEST, runs=runs)).rows
    assert before == {path: path.read_bytes() for path in runs.rglob("*.jsonl")}
    row = found.row
    assert (row.model, row.batch, row.precision, row.engine) == ("squeezenet1_1", 1, "fp32", "ort")
    assert row.failure is None
    assert row.call_seconds_s
    assert row.layers is not None


def test_another_batch_is_another_row(runs: Path) -> None:
    settings = api.NetworkSettings(batches=(1, 2))
    request = msgspec.structs.replace(REQUEST, runs=runs, settings=settings)
    rows = api.measure_networks(request).rows
    assert [found.row.batch for found in rows] == [1, 2]


def test_a_provider_that_is_not_there_is_refused(tmp_path: Path) -> None:
    settings = api.NetworkSettings(provider="tensorrt")
    request = msgspec.structs.replace(REQUEST, runs=tmp_path / "runs", settings=settings)
    with pytest.raises(UsageError, match="ort has no provider 'tensorrt' here; it has cpu"):
        api.measure_networks(request)
    assert not (tmp_path / "runs").exists()
