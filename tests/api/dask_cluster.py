"""A scheduler of Dask and its workers as processes of this machine, and small work for them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from onnx import TensorProto, helper, save

_PLAIN = {"DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "False"}


class DaskCluster:
    """Started as people do, without nannies: a worker that is killed stays away."""

    def __init__(self, n_workers: int, environment: dict[str, str], protocol: str = "tcp") -> None:
        self._environment = {**os.environ, **_PLAIN, **environment}
        self._processes: list[subprocess.Popen[str]] = []
        words = ("--port", "0", "--protocol", protocol)
        line = self._started("scheduler", *words, until=r"Scheduler at:\s+(t\S+://\S+)")
        self.address = line
        self.scheduler = self._processes[0]
        self.workers = [self.add_worker() for _ in range(n_workers)]

    def add_worker(self, **environment: str) -> subprocess.Popen[str]:
        """One more worker that is ready, with this environment beside the usual one."""
        words = (self.address, "--no-nanny", "--nthreads", "1")
        self._started("worker", *words, until=r"(Registered) to", environment=environment)
        return self._processes[-1]

    def _started(
        self, what: str, *words: str, until: str, environment: dict[str, str] | None = None
    ) -> str:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", what, *words, "--host", "127.0.0.1", "--no-dashboard"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**self._environment, **(environment or {})},
        )
        self._processes.append(process)
        said = process.stderr
        assert said is not None
        for line in said:
            found = re.search(until, line)
            if found:
                _drain(said)
                return found[1]
        raise AssertionError(f"dask {what} has ended")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def _drain(stream: IO[str]) -> None:
    """A full pipe would stop who writes into it."""
    threading.Thread(target=lambda: sum(1 for _ in _lines(stream)), daemon=True).start()


def _lines(stream: IO[str]) -> Iterator[str]:
    try:
        yield from stream
    except ValueError:  # it was closed
        return


@contextmanager
def dask_cluster(
    n_workers: int, protocol: str = "tcp", **environment: str
) -> Iterator[DaskCluster]:
    cluster = DaskCluster(n_workers, environment, protocol)
    try:
        yield cluster
    finally:
        cluster.stop()


def kill(process: subprocess.Popen[str]) -> None:
    """As the kernel does that has no memory left."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def end_process(item: int, shared: int) -> int:
    """What kills a worker: the item that ``shared`` names; twice of another."""
    if item == shared:
        os._exit(1)
    return 2 * item


def sleep_s(item: float, shared: None) -> float:
    """Work that takes a while."""
    del shared
    time.sleep(item)
    return item


def small_models(folder: Path, n_models: int) -> Path:
    """Networks of one to five convolutions with sizes of their own."""
    folder.mkdir()
    for number in range(n_models):
        save(_model(number), str(folder / f"model-{number:05}.onnx"))
    return folder


def _model(number: int):  # type: ignore[no-untyped-def]
    nodes, weights = [], []
    channels, size = 3, 8 + number % 97
    for layer in range(1 + number % 5):
        made = 8 + (7 * number + 3 * layer) % 61
        names = [f"x{layer}", f"w{layer}"]
        nodes.append(helper.make_node("Conv", names, [f"c{layer}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"x{layer + 1}"]))
        shape = [made, channels, 3, 3]
        content = bytes(4 * made * channels * 9)
        weights.append(helper.make_tensor(names[1], TensorProto.FLOAT, shape, content, raw=True))
        channels = made
    image = helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["batch", 3, size, size])
    last = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, f"network {number}", [image], [last], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
