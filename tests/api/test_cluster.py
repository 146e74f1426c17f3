"""Work on other machines by Dask: here a scheduler and workers as processes of this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest
from distributed import Client
from schedules.instances import XAVIER, drawn

from mansard import api
from mansard.api.parallel import Work, do_work
from mansard.api.parallel.cluster import connected
from mansard.core.errors import ClusterError, UsageError
from mansard.core.extras import install_command
from mansard.scheduler.search import solve
from mansard.sweeps.reporter import SilentReporter
from tests.api.dask_cluster import (
    DaskCluster,
    dask_cluster,
    end_process,
    kill,
    sleep_s,
    small_models,
)
from tests.cli.decide_runs import published_runs
from tests.cli.in_process import mansard

ROOT = Path(__file__).resolve().parents[2]
_ANOTHER = "the program that answers is not a Dask scheduler"


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with dask_cluster(2) as started:
        yield started


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_models(tmp_path_factory.mktemp("models") / "many", 60)
    (folder / "model-00030.onnx").write_bytes(b"no model")  # an error has its place too
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_runs(tmp_path_factory.mktemp("decide") / "runs")


@contextmanager
def listening(greeting: bytes, *, hangs_up: bool = False) -> Iterator[str]:
    """The address of what accepts connections, says ``greeting`` and waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    stream, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError):
                    stream.sendall(greeting)
                if hangs_up:
                    stream.close()
                accepted.append(stream)

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        accepting.join()  # or it may accept one more, which nobody closes
        for stream in accepted:
            stream.close()


@pytest.mark.parametrize(
    ("greeting", "hangs_up", "words"),
    [
        (b"", False, "no scheduler of Dask answered in 0.5 s"),
        (b"", True, "no scheduler of Dask answered in 0.5 s"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False, _ANOTHER),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            True,
            _ANOTHER,
        ),
        (b"\1" + bytes(7), False, _ANOTHER),
        # One frame, of a terabyte; one that never comes.
        (b"\1" + bytes(7) + (1 << 40).to_bytes(8, "little"), False, "is not a Dask scheduler"),
        (b"\1" + bytes(7) + b"\x10" + bytes(7), False, "no scheduler of Dask answered in 0.5 s"),
    ],
)
def test_what_is_no_scheduler_is_one_line_and_no_wait(
    greeting: bytes, hangs_up: bool, words: str
) -> None:
    with (
        listening(greeting, hangs_up=hangs_up) as address,
        pytest.raises(ClusterError, match=words),
        # A busy machine may take its time for an answer; for silence it is waited in vain.
        connected(address, connect_s=0.5 if "in 0.5 s" in words else 10.0),
    ):
        raise AssertionError("it was taken for a scheduler")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_rows_are_those_of_one_process_byte_by_byte(
    cluster: DaskCluster, models: Path, form: str
) -> None:
    words = ("score", models, "--batch", "1,8", "--format", form)
    alone = mansard(*words, "--jobs", "1")
    elsewhere = mansard(*words, "--dask", cluster.address)
    assert elsewhere.stdout == alone.stdout, elsewhere.stderr
    assert elsewhere.returncode == alone.returncode == 1
    (error,) = [line for line in alone.stderr.splitlines() if line.startswith("mansard:")]
    assert "model-00030.onnx" in error
    assert error in elsewhere.stderr.splitlines()


def test_the_modes_of_networks_are_recommended_as_here(
    cluster: DaskCluster, runs: Path, tmp_path: Path
) -> None:
    modes = tmp_path / "modes.csv"
    lines = [f"m{gpu}-{emc},{gpu},{emc}" for gpu in range(400, 1300, 50) for emc in (800, 3200)]
    modes.write_text("\n".join(["mode,gpu_mhz,emc_mhz", *lines]) + "\n", encoding="utf-8")
    for words in (
        ("recommend", "--runs", runs, "--mode", modes, "--max-latency", "8ms"),
        ("batch", "--runs", runs, "--mode", modes, "--batch", "1"),
    ):
        alone = mansard(*words, "--json")
        assert alone.returncode == 0, alone.stderr
        assert '"mode": "m1' in alone.stdout
        assert mansard(*words, "--json", "--dask", cluster.address).stdout == alone.stdout


def test_one_plan_for_each_network(cluster: DaskCluster, tmp_path: Path) -> None:
    runs = published_runs(tmp_path / "runs")
    table = (runs / "table.csv").read_text(encoding="utf-8").replace(",seen,", ",other,")
    (tmp_path / "other.csv").write_text(table, encoding="utf-8")
    made_up = ("--citation", "made up too", "--device", "Jetson Madeup")
    assert mansard("import", tmp_path / "other.csv", *made_up, "--runs", runs).returncode == 0
    words = ("plan", "--runs", runs, "--mode", tmp_path / "modes.csv", "--next", "2")
    (tmp_path / "modes.csv").write_text(
        "mode,gpu_mhz,emc_mhz\na,500,900\nb,900,1000\nc,1000,3000\n"
    )
    each = [mansard(*words, "--network", name, "--json").stdout for name in ("seen", "other")]
    both = ("--network", "seen", "--network", "other")
    alone = mansard(*words, *both, "--json")
    assert alone.returncode == 0, alone.stderr
    assert mansard(*words, *both, "--json", "--dask", cluster.address).stdout == alone.stdout
    assert "".join(each).replace(" ", "").count('"picks":') == 2
    table_of = mansard(*words, *both).stdout
    assert "next of seen (energy" in table_of
    assert "next of other (energy" in table_of


@pytest.mark.parametrize("goal", ["makespan", "weighted_latency"])
def test_a_search_in_parts_has_the_same_optimum_and_proof(cluster: DaskCluster, goal: str) -> None:
    problem = drawn(np.random.default_rng(5), XAVIER, (6, 6, 5), 1, 2)
    problem = msgspec.structs.replace(problem, goal=goal)
    alone = solve(problem, time_limit_s=60.0)
    with connected(cluster.address) as workers:
        found = solve(problem, time_limit_s=60.0, workers=workers)
    assert alone.is_optimal
    assert (found.value, found.bound, found.is_optimal) == (alone.value, alone.bound, True)
    assert (found.space, found.method) == (alone.space, alone.method)


class _Halfway(SilentReporter):
    """Does something once, when a third of the work is done."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then, self.n_done = then, 0

    @contextmanager
    def progress(self, title: str) -> Iterator[_Halfway]:
        del title
        yield self

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        del remaining_s, now
        if self.n_done < n_total / 3 <= n_done:
            self._then()
        self.n_done = n_done


@pytest.fixture(scope="module")
def doomed() -> Iterator[DaskCluster]:
    """One that the next two tests end, bit by bit."""
    with dask_cluster(2) as started:
        yield started


def test_a_worker_that_is_killed_costs_no_row_and_doubles_none(
    doomed: DaskCluster, models: Path
) -> None:
    alone = api.score([models], batches=(2,), jobs=1)
    killing = _Halfway(lambda: kill(doomed.workers[0]))
    found = api.score([models], batches=(2,), dask=doomed.address, reporter=killing)
    assert doomed.workers[0].poll() == -signal.SIGKILL
    assert killing.n_done == 60
    assert len(alone.scores) == 59
    assert found.scores == alone.scores
    assert list(map(str, found.errors)) == list(map(str, alone.errors))


def test_a_scheduler_that_ends_is_one_line(doomed: DaskCluster, models: Path) -> None:
    ending = _Halfway(lambda: kill(doomed.scheduler))
    with pytest.raises(ClusterError, match="the scheduler has ended; start it"):
        api.score([models], dask=doomed.address, reporter=ending)


def test_an_item_that_kills_its_workers_is_known_by_name() -> None:
    def lost(item: int) -> int:
        return -item

    work = Work(function=end_process, title="Doubling", name=str, lost=lost, shared=3)
    # A worker that ends once is enough here: by default Dask tries a fourth.
    with dask_cluster(3, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as cluster:
        assert do_work(work, [1, 2, 3, 4], dask=cluster.address) == [2, 4, -3, 8]


def test_an_interrupt_cancels_what_is_outstanding(cluster: DaskCluster) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    work = Work(function=sleep_s, title="Sleeping", name=str, lost=lambda item: item)
    with pytest.raises(KeyboardInterrupt):
        do_work(work, [0.0] * 10 + [0.3] * 20, dask=cluster.address, reporter=_Halfway(interrupt))
    with cast(Any, Client)(cluster.address, set_as_default=False) as client:
        keys = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.tasks))
    assert not keys


def test_workers_of_other_versions_are_refused(cluster: DaskCluster, tmp_path: Path) -> None:
    other = tmp_path / "mansard"
    other.mkdir()
    (other / "edited.py").write_text('"""What is not here."""\n')  # the same version, other source
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), *sys.path])
    worker = cluster.add_worker(PYTHONPATH=path)
    try:
        with pytest.raises(ClusterError) as error, connected(cluster.address):
            pass
    finally:
        kill(worker)
    line = str(error.value)
    assert "1 of its workers are not like this process: tcp://127.0.0.1:" in line
    assert " has mansard 0.1.0 of source " in line


def test_nothing_that_answers_is_one_line_in_time() -> None:
    started_s = time.monotonic()
    with pytest.raises(ClusterError) as error, connected("tcp://127.0.0.1:9", connect_s=0.5):
        pass
    assert str(error.value) == (
        "tcp://127.0.0.1:9: no scheduler of Dask answered in 0.5 s; start one there with "
        "'dask scheduler', and check the address and the firewall"
    )
    assert time.monotonic() - started_s < 10.0


def test_a_scheduler_without_workers_is_one_line() -> None:
    said = "has no worker; start some with 'dask worker tcp:"
    with dask_cluster(0) as cluster:
        starting = connected(cluster.address, connect_s=0.5)
        with pytest.raises(ClusterError, match=said), starting:
            pass


@pytest.mark.parametrize("address", ["host:8786", "http://host:8786", "tcp://host", "tcp:// :1"])
def test_other_addresses_are_refused(address: str, models: Path) -> None:
    done = mansard("score", models, "--dask", address)
    assert done.returncode == 2
    assert f"--dask {address!r} does not name a scheduler; write tcp://HOST:8786" in done.stderr


def test_processes_of_both_kinds_exclude_each_other(models: Path) -> None:
    done = mansard("score", models, "--dask", "tcp://host:1", "--jobs", "2")
    assert (done.returncode, done.stderr) == (
        2,
        "mansard: --jobs and --dask exclude each other; leave one of them out\n",
    )


def test_without_the_option_dask_is_not_imported_and_without_dask_a_line_says_so(
    models: Path,
) -> None:
    code = """
import sys
from mansard.cli.__main__ import run
sys.modules["distributed"] = None  # as if it were not installed
file = sys.argv[1]
assert run(["score", file, "--batch", "1"]) == 0
assert "dask" not in sys.modules
sys.exit(run(["score", file, "--dask", "tcp://host:8786"]))
"""
    file = str(models / "model-00000.onnx")
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"mansard: --dask needs Dask, which is not installed; {install_command('dask')}"
    )


def test_no_usage_error_is_hidden(cluster: DaskCluster, models: Path) -> None:
    with pytest.raises(UsageError, match="none of the models knows 'strange'"):
        api.score([models], api.Settings(api.Given(dims={"strange": 1})), dask=cluster.address)
