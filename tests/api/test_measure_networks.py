"""Networks that are run on ONNX Runtime through the API: kept, resumed, and joined with scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.core.errors import InputError, UsageError
from mansard.core.records import ModelScore
from mansard.core.storage.jsonl import read_rows
from mansard.inference.engines.engine import EngineProbe
from mansard.sweeps.networks import choose_provider
from mansard.sweeps.reporter import ProgressDisplay, SilentReporter
from tests.inference.small_networks import perceptron
from tests.undisturbed import without_doubts

pytestmark = pytest.mark.usefixtures("before_others")


class Titles(SilentReporter):
    """Keeps what progress was shown of."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        self.titles.append(title)
        with super().progress(title) as display:
            yield display


REQUEST = api.MeasureRequest(models=("alexnet",), profile="brief", is_local=True)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> api.MeasureRequest:
    """What was measured once: calls of microseconds, which other programs do not all disturb."""
    folder = tmp_path_factory.mktemp("measured")
    perceptron(folder / "mlp.onnx", batch="N")
    request = msgspec.structs.replace(
        REQUEST,
        models=(str(folder / "mlp.onnx"),),
        settings=api.NetworkSettings(threads=1),
        runs=folder / "runs",
    )
    result = api.measure_networks(request)
    result.check()
    assert len(result.rows) == 1
    return request


def test_a_network_is_measured_once(measured: api.MeasureRequest) -> None:
    without_doubts(measured.runs)
    before = {path: path.read_bytes() for path in measured.runs.rglob("*.jsonl")}
    seen = Titles()
    (found,) = api.measure_networks(measured, seen).rows
    assert "Writing networks" not in seen.titles
    assert before == {path: path.read_bytes() for path in measured.runs.rglob("*.jsonl")}
    row = found.row
    assert (row.model, row.batch, row.precision, row.engine) == ("mlp", 1, "fp32", "ort")
    assert row.failure is None
    assert row.call_seconds_s
    assert row.layers is not None


def test_another_batch_is_another_row(measured: api.MeasureRequest) -> None:
    settings = api.NetworkSettings(batches=(1, 2), threads=1)
    request = msgspec.structs.replace(measured, settings=settings)
    seen = Titles()
    rows = api.measure_networks(request, seen).rows
    assert seen.titles.count("Writing networks") == 1
    assert [found.row.batch for found in rows] == [1, 2]


class Interrupting(Titles):
    """Interrupts as soon as a trial is measured."""

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        with super().progress(title) as display:
            yield Ending() if title.startswith("Measuring") else display


class Ending:
    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        if n_done:
            raise KeyboardInterrupt


def test_an_interrupted_sweep_keeps_the_scores_of_its_rows(
    measured: api.MeasureRequest, tmp_path: Path
) -> None:
    request = msgspec.structs.replace(measured, runs=tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        api.measure_networks(request, Interrupting())
    (score,) = read_rows(tmp_path / "runs/scores.jsonl", ModelScore).rows
    assert score.model == "mlp"


def test_scores_that_cannot_be_read_are_an_error_before_anything_is_measured(
    measured: api.MeasureRequest, tmp_path: Path
) -> None:
    (tmp_path / "scores.jsonl").write_text("no scores\n", encoding="utf-8")
    with pytest.raises(InputError):
        api.measure_networks(msgspec.structs.replace(measured, runs=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["scores.jsonl"]


def test_a_provider_that_is_not_there_is_refused(tmp_path: Path) -> None:
    settings = api.NetworkSettings(provider="tensorrt")
    request = msgspec.structs.replace(REQUEST, runs=tmp_path / "runs", settings=settings)
    seen = Titles()
    with pytest.raises(UsageError, match="ort has no provider 'tensorrt' here; it has cpu"):
        api.measure_networks(request, seen)
    assert "Preparing networks" not in seen.titles
    assert not (tmp_path / "runs").exists()


def test_a_provider_of_gpus_is_refused_where_the_cpu_is_measured() -> None:
    probe = EngineProbe(
        engine="ort", version="1.19.2", versions={}, providers=("cuda", "cpu"), absent={}
    )
    with pytest.raises(UsageError, match="provider 'cuda' needs a GPU, but the CPU was requested"):
        choose_provider(probe, "cuda", has_gpu=False)
    assert choose_provider(probe, "cuda", has_gpu=True) == "cuda"
    assert choose_provider(probe, None, has_gpu=False) == "cpu"


def test_a_dry_run_counts_networks_and_writes_none(tmp_path: Path) -> None:
    request = api.BenchRequest(runs=tmp_path / "runs", is_local=True, processor="cpu")
    seen = Titles()
    (board,) = api.dry_run(request, seen)
    (mode,) = board.modes
    # Kernels, four networks with two chains, eight networks of operators with two.
    assert mode.missing == mode.trials
    assert mode.trials is not None
    assert mode.trials > 16
    assert seen.titles == ["Preparing networks"] * 2
    assert not (tmp_path / "runs").exists()
