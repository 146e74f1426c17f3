"""A worker that sends pickles which act: they do not act in the process that asked for work."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from distributed.protocol import pickle as of_dask

from mansard.api.parallel.cluster import connected
from mansard.api.parallel.messages import RefusedPickle, refused_pickles
from mansard.core.errors import ClusterError
from tests.api.dask_cluster import DaskCluster, dask_cluster, sleep_s
from tests.api.hostile_worker import ANSWERS, Acting

PRELOAD = Path(__file__).with_name("hostile_worker.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with dask_cluster(0) as started:
        yield started


@pytest.fixture
def ran_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ran_in"
    path.touch()
    monkeypatch.setenv("RAN_IN", str(path))
    return path


def unpickled(value: object) -> object:
    """As Dask unpickles what a peer sends."""
    return cast(Any, of_dask).loads(pickle.dumps(value))


def processes(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]


def test_the_pickle_acts_where_nothing_refuses_it(ran_in: Path) -> None:
    pickle.loads(pickle.dumps(Acting()))  # noqa: S301
    with refused_pickles():  # what is unpickled outside of Dask is not its business
        pickle.loads(pickle.dumps(Acting()))  # noqa: S301
    assert processes(ran_in) == [os.getpid()] * 2


@pytest.mark.parametrize("answer", [*ANSWERS, "versions"])
def test_no_answer_of_a_worker_runs_anything_here(
    answer: str, cluster: DaskCluster, ran_in: Path
) -> None:
    preload = {"DASK_DISTRIBUTED__WORKER__PRELOAD": str(PRELOAD), "HOSTILE": answer}
    worker = cluster.add_worker(**preload, RAN_IN=str(ran_in))
    try:
        with (
            pytest.raises(ClusterError, match=r"has no Mansard|sent a pickle|cannot be read"),
            connected(cluster.address) as there,
        ):
            there.submit(sleep_s, 0.0, None).result()
    finally:
        worker.kill()
        worker.wait()
    assert os.getpid() not in processes(ran_in)


# Data, the type of results, a collection in the state of a worker.
@pytest.mark.parametrize("value", [{"n": 1}, b"x", bytes, deque([1])])
def test_what_dask_needs_is_unpickled(value: object) -> None:
    with refused_pickles() as refused:
        assert repr(unpickled(value)) == repr(value)
    assert refused == []


@pytest.mark.parametrize("value", [eval, os.system, Path("x"), SystemExit(1), type, getattr])
def test_what_acts_is_refused_by_its_name(value: object) -> None:
    with refused_pickles() as refused, pytest.raises(RefusedPickle):
        unpickled(value)
    assert len(refused) == 1
    assert unpickled(value) is not None  # after the block as before
