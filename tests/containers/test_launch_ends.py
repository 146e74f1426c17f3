"""A real container: how it ends, whoever ends it, and that nothing of it stays."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.launch import launched, remove_leftovers
from mansard.containers.settings import OWNER_LABEL, create_arguments
from mansard.core.errors import ContainerError, UsageError
from tests.cli.bench_process import Start
from tests.containers.launching import all_containers, launch
from tests.containers.programs import CALLER, HANG, WAIT
from tests.containers.throwaway import (
    REPOSITORY,
    Daemon,
    import_bare_image,
    throwaway_daemon,
)
from tests.waiting import awaited

pytestmark = pytest.mark.docker
StartCaller = Callable[[str], tuple[subprocess.Popen[str], str]]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import mansard.nothing", "the image lacks what is to run in it"),
        ("import os; os.kill(os.getpid(), 11)", "crashed"),
        ("import os; os.kill(os.getpid(), 9)", "was killed"),
        ("import os; os.kill(os.getpid(), 15)", "was stopped from outside"),
        ("raise SystemExit(130)", "was stopped from outside"),  # as our own program ends then
    ],
)
def test_an_end_that_is_no_good_one_is_told(
    engine: ContainerEngine, bare_image: str, program: str, words: str
) -> None:
    program = f"print('one', flush=True); {program}"
    received: list[bytes] = []
    with (
        pytest.raises(ContainerError, match=words) as caught,
        launched(engine, launch(bare_image, "-c", program)) as container,
    ):
        received.extend(container.lines())
    assert received == [b"one"]  # what came before is kept
    assert caught.value.fix
    assert len(str(caught.value).splitlines()) == 1


def test_a_good_end_is_no_error_and_leaves_nothing(
    engine: ContainerEngine, bare_image: str
) -> None:
    program = "import sys; print('a'); print('b', file=sys.stderr); print('torn', end='')"
    with launched(engine, launch(bare_image, "-c", program)) as container:
        assert list(container.lines()) == [b"a"]
        assert container.last_words == "b"
    assert awaited(lambda: not all_containers(engine.client))


def test_a_container_that_is_killed_from_outside(engine: ContainerEngine, bare_image: str) -> None:
    with launched(engine, launch(bare_image, "-c", WAIT)) as container:
        lines = container.lines()
        assert next(lines) == b"up"
        engine.client.api.kill(container.ident)
        with pytest.raises(ContainerError, match="was killed, from outside"):
            next(lines)


def test_a_container_without_memory_is_told_from_one_that_is_killed(
    engine: ContainerEngine, bare_image: str
) -> None:
    program = """
import sys
print("up", flush=True)
sys.stdin.readline()
filled = [bytearray(b"x" * (1 << 20)) for _ in range(400)]
"""
    with launched(engine, launch(bare_image, "-c", program)) as container:
        lines = container.lines()
        assert next(lines) == b"up"
        engine.client.containers.get(container.ident).update(mem_limit="64m", memswap_limit="64m")
        container._attached.send(b"go\n")
        with pytest.raises(ContainerError, match="the memory ran out"):
            next(lines)


def test_silence_ends_a_container_that_hangs(engine: ContainerEngine, bare_image: str) -> None:
    with launched(engine, launch(bare_image, "-c", WAIT)) as container:
        silence_s = 300.0  # a container may be long in starting
        lines = container.lines(lambda: silence_s)
        assert next(lines) == b"up"
        silence_s = 0.5
        with pytest.raises(ContainerError, match=r"said nothing for 0\.5 s"):
            next(lines)
    assert awaited(lambda: not all_containers(engine.client))


def test_errors_without_end_are_silence_too(engine: ContainerEngine, bare_image: str) -> None:
    program = "import sys\nwhile True: sys.stderr.write('x' * 4096)"
    with launched(engine, launch(bare_image, "-c", program)) as container:
        with pytest.raises(ContainerError, match=r"has said nothing for 0\.5 s"):
            next(container.lines(lambda: 0.5))
        assert len(container.last_words) <= 8192


def test_a_long_message_does_not_block_a_program_that_ends_without_reading(
    engine: ContainerEngine, bare_image: str
) -> None:
    asked = launch(bare_image, "-c", "print('done')")
    with launched(engine, asked, b"x" * (32 << 20)) as container:
        assert list(container.lines()) == [b"done"]


def test_a_long_message_and_a_long_answer_pass_each_other(
    engine: ContainerEngine, bare_image: str
) -> None:
    program = "import sys\nfor _ in range(3): print(sys.stdin.readline(), end='', flush=True)"
    line = b"y" * (5 << 20)
    with launched(engine, launch(bare_image, "-c", program), (line + b"\n") * 3) as container:
        assert list(container.lines()) == [line] * 3


def test_leftovers_of_dead_owners_are_removed_and_no_others(
    engine: ContainerEngine, bare_image: str
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    from mansard.containers.launch import name_process

    dead, alive = name_process(ended.pid), name_process(os.getpid())
    ended.communicate()
    elsewhere = "another-boot/1/1"
    made = {}
    for owner in (dead, alive, elsewhere):
        made[owner] = engine.client.containers.create(
            **create_arguments(launch(bare_image, "-c", HANG), owner)
        )
        made[owner].start()
    try:
        assert remove_leftovers(engine) == (made[dead].id[:12],)
        left = {each["Labels"][OWNER_LABEL] for each in all_containers(engine.client)}
        assert left == {alive, elsewhere}
    finally:
        for owner in (alive, elsewhere):
            made[owner].remove(force=True)


def test_a_missing_folder_is_told_before_anything_starts(
    engine: ContainerEngine, bare_image: str
) -> None:
    asked = launch(bare_image, "-c", WAIT, board=Path("/no/such/board"))
    with pytest.raises(UsageError, match="is not there"), launched(engine, asked):
        pass


@pytest.fixture
def start_caller(daemon: Daemon, bare_image: str, start: Start) -> StartCaller:
    """Starts a process that runs a program in a container; also gives the container's id."""

    def start_one(program: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-c", CALLER, daemon.address, bare_image, program]
        caller = start(command, cwd=REPOSITORY)
        assert caller.stdout is not None
        return caller, caller.stdout.readline().strip()

    return start_one


def test_container_ends_with_a_host_process_that_is_killed(
    engine: ContainerEngine, start_caller: StartCaller
) -> None:
    caller, ident = start_caller(WAIT)
    assert [each["Id"] for each in all_containers(engine.client)] == [ident]
    caller.kill()
    caller.communicate()
    assert awaited(lambda: not all_containers(engine.client))


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("program", [WAIT, HANG], ids=["willing", "hanging"])
def test_interrupt_ends_the_container(
    engine: ContainerEngine, start_caller: StartCaller, program: str
) -> None:
    caller, ident = start_caller(program)
    assert ident
    caller.send_signal(signal.SIGINT)
    _, said = caller.communicate(timeout=300)
    assert said.strip().endswith("KeyboardInterrupt")
    assert all_containers(engine.client) == []


# The SDK leaves its socket open where nobody answers.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.usefixtures("daemon")  # it skips where there can be none
def test_daemon_that_goes_away_in_the_middle_of_a_run() -> None:
    with throwaway_daemon() as own, connect(own.address) as engine:
        image = import_bare_image(engine.client)
        with launched(engine, launch(image, "-c", WAIT)) as container:
            lines = container.lines()
            assert next(lines) == b"up"
            os.kill(own.pid, signal.SIGKILL)
            with pytest.raises(ContainerError, match="went away in the middle of a run"):
                next(lines)
        gc.collect()  # here, where the warning is not in the way
