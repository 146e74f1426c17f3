"""Networks that are run on ONNX Runtime through the API: kept, resumed, and joined with scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.api.reporter import ProgressDisplay, SilentReporter
from mansard.core.errors import UsageError


class Titles(SilentReporter):
    """Keeps what progress was shown of."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        self.titles.append(title)
        with super().progress(title) as display:
            yield display


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
    seen = Titles()
    (found,) = api.measure_networks(msgspec.structs.replace(REQUEST, runs=runs), seen).rows
    assert "Writing networks" not in seen.titles
    assert before == {path: path.read_bytes() for path in runs.rglob("*.jsonl")}
    row = found.row
    assert (row.model, row.batch, row.precision, row.engine) == ("squeezenet1_1", 1, "fp32", "ort")
    assert row.failure is None
    assert row.call_seconds_s
    assert row.layers is not None


def test_another_batch_is_another_row(runs: Path) -> None:
    settings = api.NetworkSettings(batches=(1, 2))
    request = msgspec.structs.replace(REQUEST, runs=runs, settings=settings)
    seen = Titles()
    rows = api.measure_networks(request, seen).rows
    assert seen.titles.count("Writing networks") == 1
    assert [found.row.batch for found in rows] == [1, 2]


def test_a_provider_that_is_not_there_is_refused(tmp_path: Path) -> None:
    settings = api.NetworkSettings(provider="tensorrt")
    request = msgspec.structs.replace(REQUEST, runs=tmp_path / "runs", settings=settings)
    with pytest.raises(UsageError, match="ort has no provider 'tensorrt' here; it has cpu"):
        api.measure_networks(request)
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_counts_networks_and_writes_none(tmp_path: Path) -> None:
    request = api.BenchRequest(runs=tmp_path / "runs", is_local=True, processor="cpu")
    seen = Titles()
    (board,) = api.dry_run(request, seen)
    (mode,) = board.modes
    assert mode.missing == mode.trials > 6  # kernels, four networks and two chains
    assert seen.titles == ["Preparing networks"]
    assert not (tmp_path / "runs").exists()
