"""Builds that end badly: one clear line each, and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.images.building import BuildStep, run_step
from mansard.containers.images.store import find
from mansard.core.errors import ContainerError, StorageError
from tests.containers.image_base import import_program
from tests.containers.throwaway import Daemon, throwaway_daemon
from tests.waiting import awaited

pytestmark = pytest.mark.docker

BASE = "mansard-test/sleeper:1"
SLEEP = Path(shutil.which("sleep") or "/bin/sleep")


@pytest.fixture
def engine(daemon: Daemon) -> Iterator[ContainerEngine]:
    with connect(daemon.address) as connected:
        import_program(connected.client, SLEEP, BASE)
        yield connected


def step(*instructions: str) -> BuildStep:
    recipe = "\n".join((f"FROM {BASE}", *instructions))
    return BuildStep(
        tag="mansard/failing:1",
        files=MappingProxyType({"Dockerfile": recipe.encode()}),
        arguments=MappingProxyType({}),
        content="failing",
    )


SLEEPING = step(f'RUN ["{SLEEP}", "100"]')


def when_running(action: Callable[[], None]) -> Callable[[str], None]:
    def tell(line: str) -> None:
        if "Running in" in line:
            action()

    return tell


def test_an_interrupted_build_is_stopped_on_the_engine_too(engine: ContainerEngine) -> None:
    running: list[bool] = []

    def interrupt() -> None:
        running.append(awaited(lambda: len(engine.client.api.containers()) == 1))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_step(engine, SLEEPING, network="none", tell=when_running(interrupt))
    assert running == [True]
    assert awaited(lambda: engine.client.api.containers(all=True) == [])
    assert find(engine.client, SLEEPING.tag) is None


def test_a_step_that_fails_is_one_line(engine: ContainerEngine) -> None:
    failing = step(f'RUN ["{SLEEP}", "nonsense"]')
    with pytest.raises(ContainerError, match=r"mansard/failing:1: the image could not be built"):
        run_step(engine, failing, network="none", tell=lambda _: None)
    assert engine.client.api.containers(all=True) == []
    assert find(engine.client, failing.tag) is None


def test_a_base_without_python_is_said_plainly(engine: ContainerEngine) -> None:
    python = step('RUN ["python3", "/build/install.py"]')
    with pytest.raises(ContainerError, match="the base image has no Python with pip"):
        run_step(engine, python, network="none", tell=lambda _: None)


def test_a_base_that_is_not_there(engine: ContainerEngine) -> None:
    recipe = b"FROM 127.0.0.1:1/not/there:1"
    missing = BuildStep(
        "mansard/failing:1", MappingProxyType({"Dockerfile": recipe}), {}, "missing"
    )
    with pytest.raises(ContainerError, match="no network"):
        run_step(engine, missing, network="none", tell=lambda _: None)


@pytest.mark.usefixtures("daemon")  # it skips where there can be none
def test_the_engine_goes_away_in_the_middle() -> None:
    with throwaway_daemon() as daemon, connect(daemon.address) as engine:
        import_program(engine.client, SLEEP, BASE)
        kill = when_running(lambda: os.kill(daemon.pid, signal.SIGKILL))
        with pytest.raises(ContainerError, match="the container engine went away in the middle"):
            run_step(engine, SLEEPING, network="none", tell=kill)


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    disk = folder / "d"  # mounted on ``folder``, it would hide its lock
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_no_space_for_what_is_sent(
    engine: ContainerEngine, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = sparse(tmp_path / "large.whl", 60 << 20)  # 60 MiB do not fit into 48
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        run_step(
            engine, SLEEPING, network="none", tell=lambda _: None, large={"wheels/a.whl": wheel}
        )
    assert list(small_disk.iterdir()) == []


@pytest.mark.usefixtures("daemon", "small_disk")  # they skip where there can be none
def test_the_engine_has_no_space(tmp_path: Path) -> None:
    wheel = sparse(tmp_path / "large.whl", 60 << 20)
    with throwaway_daemon(48 << 20) as daemon, connect(daemon.address) as engine:
        import_program(engine.client, SLEEP, BASE)
        with pytest.raises(StorageError, match="the disk of the container engine is full"):
            run_step(
                engine,
                step("COPY wheels /wheels"),
                network="none",
                tell=lambda _: None,
                large={"wheels/a.whl": wheel},
            )
        assert find(engine.client, SLEEPING.tag) is None


def sparse(path: Path, size: int) -> Path:
    with path.open("wb") as stream:
        stream.truncate(size)
    return path
