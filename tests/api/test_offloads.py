"""A small network here, a large one in a server process: what is measured, and what is kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from mansard.analytics.decisions.offload.records import Amount
from mansard.api.offloads import OffloadResult, run_offload
from mansard.core.errors import InputError, MeasurementError, UsageError
from mansard.core.records import OffloadRun
from mansard.core.storage.jsonl import read_rows
from mansard.inference.offloading.client import describe
from mansard.inference.offloading.payloads import payloads
from mansard.inference.preparing import find_dataset
from mansard.inference.servers.connection import parse_address
from mansard.sweeps.accuracies import AccuracySettings
from mansard.sweeps.offloads import OffloadRequest
from tests.api.offload_process import serving
from tests.inference.cifar_files import Cifar
from tests.undisturbed import without_doubts

N = 60


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Cifar:
    return Cifar(tmp_path_factory.mktemp("cifar"), N)


@pytest.fixture(scope="module")
def server(cifar: Cifar) -> Iterator[str]:
    with serving(cifar.large, "--preprocess", "unit") as (address, _):
        yield address


def request(cifar: Cifar, address: str, runs: Path, **changes: object) -> OffloadRequest:
    """The small network, every sample of the file, in blocks of 25: 25, 25 and 10."""
    fields: dict[str, object] = {
        "network": str(cifar.small),
        "server": address,
        "data": AccuracySettings(data=cifar.data, preprocess="unit"),
        "threshold": 0.6,
        "threads": 1,
        "block": 25,
        "runs": runs,
        "profile": "brief",
    }
    return OffloadRequest(**fields | changes)  # type: ignore[arg-type]


def rows_in(runs: Path) -> list[OffloadRun]:
    (path,) = runs.glob("*/offloads.jsonl")
    return list(read_rows(path, OffloadRun, runs).rows)


@pytest.fixture(scope="module")
def measured(
    cifar: Cifar, server: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[OffloadResult, Path]:
    runs = tmp_path_factory.mktemp("runs")
    return run_offload(request(cifar, server, runs)), runs


def test_every_sample_runs_in_every_way(cifar: Cifar, measured: tuple[OffloadResult, Path]) -> None:
    result, runs = measured
    result.check()
    rows = rows_in(runs)
    assert [(row.way, row.first, row.n_samples) for row in rows] == [
        (way, first, n)
        for first, n in ((0, 25), (25, 25), (50, 10))
        for way in ("local", "remote", "hierarchical")
    ]
    small, large = cifar.probabilities("small"), cifar.probabilities("large")
    is_below = small.max(axis=1) < 0.6
    assert 0 < is_below.sum() < N  # else it is no test
    for row in rows:
        of_block = slice(row.first, row.first + row.n_samples)
        assert row.labels == tuple(cifar.labels[of_block])
        kept, sent = small[of_block].argmax(axis=1), large[of_block].argmax(axis=1)
        below = is_below[of_block]
        expected = {"local": kept, "remote": sent, "hierarchical": np.where(below, sent, kept)}
        assert row.predicted == tuple(expected[row.way])
        if row.way != "remote":
            ordered = np.sort(small[of_block], axis=1)
            assert row.p1 == pytest.approx(ordered[:, -1], abs=1e-4)
            assert row.p2 == pytest.approx(ordered[:, -2], abs=1e-4)
        n_sent = {"local": 0, "remote": row.n_samples, "hierarchical": below.sum()}[row.way]
        assert row.sent_bytes == (3072,) * n_sent  # an image of CIFAR as it is
        trips = zip(row.inference_s, row.server_s, row.round_trip_s, strict=True)
        assert all(0 < inner <= middle <= outer for inner, middle, outer in trips)
        assert row.scores == "probabilities"
        assert row.energy is None
        assert row.unknown["energy"].startswith("no meter")


def test_the_summary_is_that_of_the_rows(
    cifar: Cifar, measured: tuple[OffloadResult, Path]
) -> None:
    (one,) = measured[0].measured
    small, large = cifar.probabilities("small"), cifar.probabilities("large")
    is_below = small.max(axis=1) < 0.6
    local, remote = (each.argmax(axis=1) == cifar.labels for each in (small, large))
    assert one.local_accuracy is not None
    assert one.local_accuracy.value == local.mean()
    assert one.remote_accuracy is not None
    assert one.remote_accuracy.value == remote.mean()
    assert one.accuracy is not None
    assert one.accuracy.value == np.where(is_below, remote, local).mean()
    assert one.share is not None
    assert one.share.value == is_below.mean()
    rows = rows_in(measured[1])
    by_way = {
        way: np.array([s for row in rows if row.way == way for s in row.latency_s])
        for way in ("local", "remote", "hierarchical")
    }
    assert one.all is not None
    assert one.all.mean_s == pytest.approx(by_way["hierarchical"].mean())
    # The parts are of the blocks that keep, or offload, everything: local + decision + f · offload.
    local_s = np.mean([s for row in rows if row.way == "local" for s in row.local_s])
    decision_s = np.mean([s for row in rows if row.way == "local" for s in row.decision_s])
    predicted_s = local_s + decision_s + is_below.mean() * by_way["remote"].mean()
    assert isinstance(one.predicted_latency, Amount)
    assert one.predicted_latency.value == pytest.approx(predicted_s)
    assert one.predicted_latency.source == "modelled"
    assert one.latency_error == pytest.approx(one.all.mean_s / predicted_s - 1)
    assert one.energy is None
    assert one.unknown["energy"].startswith("no meter")
    assert [timed.n_classes for timed in one.decisions] == [10, 100, 1000]
    assert one.n_missing == 0


def test_what_was_measured_is_not_measured_again(
    cifar: Cifar, server: str, measured: tuple[OffloadResult, Path]
) -> None:
    result, runs = measured
    without_doubts(runs)
    before = rows_in(runs)
    again = run_offload(request(cifar, server, runs))
    assert rows_in(runs) == before
    assert [one.local_accuracy for one in again.measured] == [
        one.local_accuracy for one in result.measured
    ]


def test_a_server_that_dies_loses_no_block(cifar: Cifar, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with serving(cifar.large, "--preprocess", "unit") as (address, process):
        killed = KillAfter(process, runs, 4)
        result = run_offload(request(cifar, address, runs, block=10), killed)
    assert isinstance(result.failure, MeasurementError)
    there = rows_in(runs)
    assert 4 <= len(there) < 18
    assert f"{len(there)} of 18 blocks are kept, the same command" in str(result.failure)
    (partial,) = result.measured
    assert partial.n_samples + partial.n_missing == N
    port = parse_address(address).port
    with serving(cifar.large, "--preprocess", "unit", port=port):
        whole = run_offload(request(cifar, address, runs, block=10))
    whole.check()
    assert rows_in(runs)[: len(there)] == there
    assert whole.measured[0].n_missing == 0
    assert len(rows_in(runs)) == 18


class KillAfter:
    """A reporter that kills the server once so many blocks are on disk."""

    def __init__(self, process: subprocess.Popen[str], runs: Path, n: int) -> None:
        self._process, self._runs, self._n = process, runs, n

    def note(self, line: str) -> None:
        """Nobody reads it."""

    def ask(self, question: str) -> bool:
        return False

    @contextmanager
    def progress(self, title: str) -> Iterator[KillAfter]:
        yield self

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        if n_total == 18 and n_done >= self._n:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()


def test_energy_is_that_of_the_boards_meter(
    cifar: Cifar, server: str, tmp_path: Path, board: Path
) -> None:
    result = run_offload(request(cifar, server, tmp_path / "runs", board=board, block=N))
    (one,) = result.measured
    # A block of 60 tiny networks is shorter than the 20 changes of a sensor that a window needs.
    for row in rows_in(tmp_path / "runs"):
        assert row.source == "simulated"
        assert row.energy is not None
        assert row.energy.repetitions == N
        assert row.energy.total_j is not None or row.energy.unknown["total_j"]
    assert one.energy is not None or one.unknown["energy"]
    assert one.costs.local_s is not None
    assert one.costs.local_s.source == "simulated"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"threshold": None}, "no rule says what is offloaded"),
        ({"threshold": 7.0}, "--threshold 7 is not between 0 and 1"),
        ({"network": "resnet18"}, "resnet18 is not an ONNX file"),
        ({"data": AccuracySettings()}, "there are no samples"),
        ({"hosts": ("a",)}, "runs on this machine, not with --host"),
        ({"server": "ftp://x"}, "--server 'ftp://x' is not an address"),
        ({"provider": "cuda"}, "cuda"),
    ],
)
def test_wrong_usage_is_one_line(
    cifar: Cifar, server: str, tmp_path: Path, changes: dict[str, object], fault: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run_offload(request(cifar, server, tmp_path / "runs", **changes))
    assert fault in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_nobody_listens(cifar: Cifar, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="cannot be reached: connection refused"):
        run_offload(request(cifar, "http://127.0.0.1:1", tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def write_npz(path: Path, **arrays: object) -> AccuracySettings:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return AccuracySettings(data=path)


def test_arrays_are_sent_as_they_are(cifar: Cifar, server: str, tmp_path: Path) -> None:
    pixels = (cifar.images / np.float32(255)).astype(np.float32)
    data = write_npz(tmp_path / "x.npz", image=pixels, labels=cifar.labels)
    result = run_offload(request(cifar, server, tmp_path / "runs", data=data, block=N))
    (row,) = [row for row in rows_in(tmp_path / "runs") if row.way == "remote"]
    assert row.predicted == tuple(cifar.probabilities("large").argmax(axis=1))
    assert set(row.sent_bytes) == {4 * 3072}
    assert result.measured[0].accuracy is not None


def test_samples_without_labels_have_latencies_alone(
    cifar: Cifar, server: str, tmp_path: Path
) -> None:
    pixels = (cifar.images[:5] / np.float32(255)).astype(np.float32)
    data = write_npz(tmp_path / "x.npz", image=pixels)
    (one,) = run_offload(request(cifar, server, tmp_path / "runs", data=data)).measured
    assert one.accuracy is None
    assert one.unknown["accuracy"] == "the data set has no labels"
    assert one.all is not None


def test_images_are_sent_as_their_files(cifar: Cifar, server: str, tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for at in range(4):  # PNG loses nothing
        Image.fromarray(cifar.images[at].transpose(1, 2, 0)).save(folder / f"{at}.png")
    (folder / "labels.txt").write_text("\n".join(map(str, cifar.labels[:4])))
    data = AccuracySettings(data=folder, preprocess="unit")
    run_offload(request(cifar, server, tmp_path / "runs", data=data))
    (row,) = [row for row in rows_in(tmp_path / "runs") if row.way == "remote"]
    sizes = [(folder / f"{at}.png").stat().st_size for at in range(4)]
    assert list(row.sent_bytes) == sizes
    assert row.predicted == tuple(cifar.probabilities("large")[:4].argmax(axis=1))


def test_samples_have_to_fit_both_networks(cifar: Cifar, server: str, tmp_path: Path) -> None:
    data = write_npz(tmp_path / "x.npz", x=np.zeros((3, 12), np.float32), labels=[1, 2, 3])
    for n_classes, fault in (
        (6, "small has 6 classes, large on the server 10"),
        (10, "no array is float32 [3, 32, 32] a sample, as large on the server takes"),
    ):
        network = tmp_path / f"{n_classes}/small.onnx"
        network.parent.mkdir()
        write_linear(network, n_classes)
        with pytest.raises(UsageError) as caught:
            run_offload(request(cifar, server, tmp_path / "runs", network=str(network), data=data))
        assert fault in str(caught.value)


def write_linear(path: Path, n_classes: int) -> None:
    """A classifier of twelve features."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["scores"])],
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 12])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", n_classes])],
        [numpy_helper.from_array(np.ones((12, n_classes), np.float32), "w")],
    )
    ids = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=ids, ir_version=8), path)


def test_a_cut_file_is_refused(cifar: Cifar, server: str, tmp_path: Path) -> None:
    path = tmp_path / "cut.bin"
    path.write_bytes(cifar.data.read_bytes()[:-1])
    with pytest.raises(InputError, match="which are no whole records"):
        run_offload(request(cifar, server, tmp_path / "runs", data=AccuracySettings(data=path)))


def test_a_block_has_to_fit_the_memory(cifar: Cifar, server: str) -> None:
    dataset, served = find_dataset(cifar.data), describe(parse_address(server))
    assert len(payloads(dataset, served, range(3), most_bytes=3 * 3072)) == 3
    with pytest.raises(UsageError, match="a block take more than 0 MiB; give a smaller --block"):
        payloads(dataset, served, range(4), most_bytes=3 * 3072)
