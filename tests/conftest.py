"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import tests.environment  # noqa: F401 (first: see there)
from tests.simulator.simulator_bench import agx_orin, board, running_agx_orin

__all__ = ["agx_orin", "board", "running_agx_orin"]

# How long an example takes is the machine's matter: under load a write to disk can wait.
# A change is judged by the same examples on every machine; `make test-random` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("random", deadline=None, max_examples=1000)
settings.load_profile("same")


# These take longest; a worker that got one of them last would end long after the others.
_FIRST = (
    *("containers", "browser", "documents", "cli", "api", "measuring"),
    *("estimator", "analytics", "scheduler", "packaging"),
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the rooms whose tests take longest."""
    rooms = {room: place for place, room in enumerate(_FIRST)}
    items.sort(key=lambda item: rooms.get(item.path.parent.name, len(rooms)))


def pytest_collection_finish() -> None:
    """Keep what was imported and collected out of the garbage collector's sight.

    It stays to the end. To look through it again and again took a seventh of the CPU time.
    """
    gc.collect()
    gc.freeze()


# Files that share what takes long and is made once in each worker: the image of the containers,
# the tests of the onnx package, and Chromium with its pages.
_TOGETHER = {
    "image": "containers/test_(bench_(container|fleet)|breaker_(ends|fleet)|images_built"
    "|measure_container)",
    "pages": "browser/",
    "nodes": "estimator/test_(hints|node_(models|values)|operator_versions|reader_same"
    "|unknown_shapes)",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile``, but that the files of a group have one worker together."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    def group_or_file(nodeid: str) -> str:
        file = nodeid.split("::", maxsplit=1)[0]
        groups = (name for name, files in _TOGETHER.items() if re.search(files, file))
        return next(groups, file)

    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = group_or_file
    return scheduling


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data recorded by others; tests that ask for it skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared/data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the project")
    return folder


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ONNX file that a bench can score."""
    from mansard.estimator import zoo

    return zoo.write("resnet18", tmp_path_factory.mktemp("network"))


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts commands whose output goes to pipes; those that outlive the test are killed."""
    started: list[subprocess.Popen[str]] = []

    def start_one(command: list[str], **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, **{**pipes, **options}))
        return started[-1]

    yield start_one
    for process in started:
        with process:  # closes the pipes
            process.kill()


@pytest.fixture(scope="module")
def before_others() -> Iterator[None]:
    """What a file's tests measure runs before other programs, where the user may ask for that.

    On a busy machine other tests could take the CPU in every sample of a short measurement. A nice
    value is no help: Linux compares it within one session, and what measures has its own
    (man 7 sched, "The autogroup feature"). Of a module, so that it is there before fixtures that
    measure once for all tests of their file.
    """
    yield from _in_real_time(1)


@pytest.fixture(scope="module")
def before_all() -> Iterator[None]:
    """As ``before_others``, and before these: for programs that sleep, which take no CPU away.

    Tests that measure beside it compute in real time, in turns of 100 ms: a sleep of 300 ms would
    end late by as much.
    """
    yield from _in_real_time(2)


def _in_real_time(priority: int) -> Iterator[None]:
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
    yield
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@pytest.fixture(scope="module")
def beside_each_other() -> Iterator[None]:
    """As ``before_others``, for more threads than CPUs: these take turns of milliseconds.

    In real time a turn lasts 100 ms (man 2 sched_rr_get_interval), a third of a test's window.
    """
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, usual)


@pytest.fixture
def as_in_a_terminal() -> Iterator[None]:
    """No signal is ignored: tests that run under nohup have SIGHUP so, and hand it on."""
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
