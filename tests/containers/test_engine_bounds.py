"""What an engine answers is bounded: in bytes, in time, and in the memory that it takes."""

from __future__ import annotations

import dataclasses
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from mansard.containers.answers import AnswerLimits, answer, messages
from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.engine_errors import explained
from mansard.containers.images.building import BuildStep, run_step
from mansard.containers.images.pulling import pull
from mansard.containers.launch import engine_time_s, how_it_ended, remove_leftovers
from mansard.containers.stream import attach
from mansard.core.errors import ContainerError, MansardError
from tests.containers.flooding_engine import FLOODS, Flood, flooding_engine, slowly
from tests.containers.stand_in_engine import DOCKER_28, stand_in_engine

MIB = 1 << 20


@contextmanager
def in_little_memory(peak_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < peak_bytes
    finally:
        tracemalloc.stop()


def check_line(error: MansardError) -> None:
    assert str(error).isprintable()
    assert len(str(error)) < 1000
    assert error.fix
    assert str(error).count(error.fix) == 1


def read_all(engine: ContainerEngine, limits: AnswerLimits) -> None:
    with answer(engine.client, "GET", "/log", limits=limits) as response:
        for _ in messages(response):
            pass


def save_all(engine: ContainerEngine, limits: AnswerLimits) -> None:
    with answer(engine.client, "GET", "/log", limits=limits) as response:
        for _ in response.iter_content(MIB):
            pass


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_an_answer_is_not_read_beyond_its_limit(folder: Path, flood: Flood) -> None:
    with flooding_engine(folder, "/version", flood) as (address, sent), in_little_memory(32 * MIB):
        with pytest.raises(ContainerError) as caught, connect(address):
            pass
        check_line(caught.value)
    assert sent.n_bytes < 6 * MIB  # 4, and what the buffers of a socket hold


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("read", [read_all, save_all])
def test_a_long_answer_is_not_read_beyond_its_own(
    folder: Path, read: Callable[[ContainerEngine, AnswerLimits], None], flood: Flood
) -> None:
    with (
        flooding_engine(folder, "/log", flood) as (address, sent),
        connect(address) as engine,
        in_little_memory(32 * MIB),
    ):
        with pytest.raises(MansardError) as caught, explained("here"):
            read(engine, AnswerLimits(MIB, 60.0))
        check_line(caught.value)
    assert sent.n_bytes < 7 * MIB  # 1, 4 for the header, and buffers


STEP = BuildStep("mansard/x:1", MappingProxyType({"Dockerfile": b"FROM x"}), {}, "x")
LOGS: dict[str, tuple[str, Callable[[ContainerEngine], object]]] = {
    "build": ("/build", lambda engine: run_step(engine, STEP, network="none", tell=lambda _: None)),
    "pull": ("/images/create", lambda engine: pull(engine, "here:1")),
    "events": ("/events", lambda engine: how_it_ended(engine.client, "x", 0)),
    "containers": ("/containers/json", remove_leftovers),
    "info": ("/info", lambda engine: engine_time_s(engine.client)),
}


@pytest.mark.parametrize(("path", "ask"), LOGS.values(), ids=LOGS)
def test_every_question_has_a_limit(
    folder: Path, path: str, ask: Callable[[ContainerEngine], object]
) -> None:
    flood = FLOODS["messages that never end"]
    with stand_in_engine(folder, DOCKER_28) as address, connect(address) as engine:
        pass
    (folder / "engine.sock").unlink()
    with flooding_engine(folder, path, flood) as (address, sent):
        flooded = dataclasses.replace(engine, address=address)
        with pytest.raises(MansardError, match="is longer than it may be") as caught:
            ask(flooded)
        check_line(caught.value)
    assert sent.n_bytes < 24 * MIB  # 16 and 4, and buffers


def test_an_answer_that_comes_byte_by_byte_has_an_end(folder: Path) -> None:
    with flooding_engine(folder, "/log", slowly) as (address, _), connect(address) as engine:
        with pytest.raises(ContainerError, match=r"takes longer than 0\.3 s"):
            read_all(engine, AnswerLimits(MIB, 0.3))
        assert engine_time_s(engine.client) > 0  # the next question is answered


def test_an_engine_that_never_answers_has_an_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing() -> Iterator[bytes]:
        threading.Event().wait(5)
        yield b""

    with flooding_engine(folder, "/attach", nothing) as (address, _), connect(address) as engine:
        monkeypatch.setattr("mansard.containers.answers.TIMEOUT_S", 0.3)
        with pytest.raises(ContainerError, match="does not answer in time"), explained("x"):
            attach(engine.client, "x")
