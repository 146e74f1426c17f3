"""A real container: what it may do, how it ends, and that nothing of it stays."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.access import Access
from mansard.containers.engine import Engine, connect
from mansard.containers.launch import launched
from mansard.containers.owners import remove_leftovers
from mansard.containers.settings import OWNER_LABEL, create_arguments
from mansard.core.errors import ContainerError, UsageError
from tests.containers.launching import SOMEBODY, launch, wait_for
from tests.containers.throwaway import (
    REPOSITORY,
    Daemon,
    import_bare_image,
    throwaway_daemon,
)

pytestmark = pytest.mark.docker

# Says what it was told and then what it sees of itself, as JSON; ends with its input.
LOOK = """
import json, os, sys
told = sys.stdin.readline().strip()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def can_write(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
    return "written"
print(json.dumps({
    "told": told,
    "capabilities": [status[f"Cap{kind}"].strip() for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "ids": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()],
    "groups": os.getgroups(),
    "network": sorted(os.listdir("/sys/class/net")),
    "writes": {path: can_write(path) for path in ("/x", "/usr/x", "/sys/x", REPO + "/x", "/tmp/x")},
    "devices": sorted(os.listdir("/dev")),
    "environment": dict(os.environ),
}), flush=True)
sys.stdin.read()
"""
WAIT = "import sys; print('up', flush=True); sys.stdin.read()"
HANG = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
SCRATCH = "/tmp/x"  # noqa: S108 - of a container


@pytest.fixture
def engine(daemon: Daemon) -> Iterator[Engine]:
    with connect(daemon.address) as connected:
        yield connected


def all_containers(client: Any) -> list[Any]:
    found: list[Any] = client.api.containers(all=True)
    return found


def test_container_may_do_nothing_but_compute(engine: Engine, bare_image: str) -> None:
    program = LOOK.replace("REPO", repr(str(REPOSITORY)))
    asked = launch(bare_image, "-c", program, groups=(44, 109), run="a run")
    with launched(engine, asked, b"hello\n") as container:
        lines = container.lines()
        seen = json.loads(next(lines))
        told = engine.client.api.inspect_container(container.ident)
        assert len(all_containers(engine.client)) == 1
    assert seen["told"] == "hello"
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert seen["no_new_privileges"] == "1"
    assert seen["seccomp"] == "2"  # a filter: the engine's default profile
    assert seen["ids"] == [SOMEBODY.uid, SOMEBODY.uid, SOMEBODY.gid, SOMEBODY.gid]
    assert set(seen["groups"]) <= {44, 109, SOMEBODY.gid}
    assert {44, 109} <= set(seen["groups"])
    assert seen["network"] == ["lo"]
    assert seen["writes"].pop(SCRATCH) == "written"
    assert set(seen["writes"].values()) <= {"Read-only file system", "Permission denied"}
    assert seen["writes"]["/x"] == "Read-only file system"
    # Devices of a container without any: no disk, no /dev/mem, no card.
    assert not {"mem", "kmsg", "sda", "vda", "nvidia0", "nvhost-ctrl"} & set(seen["devices"])
    # What the engine itself says of it.
    host = told["HostConfig"]
    assert host["Privileged"] is False
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] is None
    assert host["AutoRemove"] is True
    assert host["LogConfig"]["Type"] == "none"
    assert all(mount["RW"] is False for mount in told["Mounts"])
    assert told["Config"]["User"] == SOMEBODY.text
    assert told["Config"]["StdinOnce"] is True
    assert told["State"]["Running"] is True
    wait_for(lambda: not all_containers(engine.client), "the container is removed")


def test_container_of_a_root_caller_who_needs_root_has_no_capability_either(
    engine: Engine, bare_image: str
) -> None:
    root = type(SOMEBODY)(uid=0, gid=0, why="the test")
    program = LOOK.replace("REPO", repr(str(REPOSITORY)))
    with launched(engine, launch(bare_image, "-c", program, user=root), b"\n") as container:
        seen = json.loads(next(container.lines()))
    assert seen["ids"] == [0, 0, 0, 0]
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert "written" not in {seen["writes"][path] for path in seen["writes"] if path != SCRATCH}


def test_runtime_of_a_jetson_brings_its_variables(engine: Engine, bare_image: str) -> None:
    access = Access(kind="runtime", gpu="jetson", why="the test")
    program = LOOK.replace("REPO", repr(str(REPOSITORY)))
    with launched(engine, launch(bare_image, "-c", program, access=access), b"\n") as container:
        seen = json.loads(next(container.lines()))
        told = engine.client.api.inspect_container(container.ident)
    assert told["HostConfig"]["Runtime"] == "nvidia"
    assert seen["environment"]["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert seen["environment"]["NVIDIA_DRIVER_CAPABILITIES"] == "all"


def test_a_simulated_board_is_there_to_read(
    engine: Engine, bare_image: str, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/power").write_text("12345\n")
    program = "print(open('/board/sys/power').read(), end=''); open('/board/sys/power', 'w')"
    with launched(engine, launch(bare_image, "-c", program, board=tmp_path)) as container:
        lines = container.lines()
        assert next(lines) == b"12345"
        with pytest.raises(ContainerError, match="Read-only file system"):
            next(lines)


def test_debug_files_are_there_to_read(engine: Engine, bare_image: str) -> None:
    root = type(SOMEBODY)(uid=0, gid=0, why="the test")
    program = "print(open('/proc/mounts').read())"
    asked = launch(bare_image, "-c", program, user=root, with_debug_files=True)
    with launched(engine, asked) as container:
        mounts = [line.decode().split() for line in container.lines() if line]
    (options,) = [fields[3] for fields in mounts if fields[1] == "/sys/kernel/debug"]
    assert "ro" in options.split(",")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import mansard.nothing", "the image lacks what is to run in it"),
        ("import os; os.kill(os.getpid(), 11)", "crashed"),
        ("import os; os.kill(os.getpid(), 9)", "was killed"),
        ("import os; os.kill(os.getpid(), 15)", "was stopped from outside"),
    ],
)
def test_an_end_that_is_no_good_one_is_told(
    engine: Engine, bare_image: str, program: str, words: str
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


def test_a_good_end_is_no_error_and_leaves_nothing(engine: Engine, bare_image: str) -> None:
    program = "import sys; print('a'); print('b', file=sys.stderr); print('torn', end='')"
    with launched(engine, launch(bare_image, "-c", program)) as container:
        assert list(container.lines()) == [b"a"]
        assert container.last_words == "b"
    wait_for(lambda: not all_containers(engine.client), "the container is removed")


def test_a_container_that_is_killed_from_outside(engine: Engine, bare_image: str) -> None:
    with launched(engine, launch(bare_image, "-c", WAIT)) as container:
        lines = container.lines()
        assert next(lines) == b"up"
        engine.client.api.kill(container.ident)
        with pytest.raises(ContainerError, match="was killed, from outside"):
            next(lines)


def test_a_container_without_memory_is_told_from_one_that_is_killed(
    engine: Engine, bare_image: str
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


def test_silence_ends_a_container_that_hangs(engine: Engine, bare_image: str) -> None:
    with launched(engine, launch(bare_image, "-c", WAIT)) as container:
        lines = container.lines(silence_s=0.5)
        assert next(lines) == b"up"
        with pytest.raises(ContainerError, match=r"said nothing for 0\.5 s"):
            next(lines)
    wait_for(lambda: not all_containers(engine.client), "the container is removed")


def test_a_long_message_does_not_block_a_program_that_ends_without_reading(
    engine: Engine, bare_image: str
) -> None:
    asked = launch(bare_image, "-c", "print('done')")
    with launched(engine, asked, b"x" * (32 << 20)) as container:
        assert list(container.lines()) == [b"done"]


def test_a_long_message_and_a_long_answer_pass_each_other(engine: Engine, bare_image: str) -> None:
    program = "import sys\nfor _ in range(3): print(sys.stdin.readline(), end='', flush=True)"
    line = b"y" * (5 << 20)
    with launched(engine, launch(bare_image, "-c", program), (line + b"\n") * 3) as container:
        assert list(container.lines()) == [line] * 3


def test_leftovers_of_dead_owners_are_removed_and_no_others(
    engine: Engine, bare_image: str
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    from mansard.containers.owners import name_process

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


def test_a_missing_folder_is_told_before_anything_starts(engine: Engine, bare_image: str) -> None:
    asked = launch(bare_image, "-c", WAIT, board=Path("/no/such/board"))
    with pytest.raises(UsageError, match="is not there"), launched(engine, asked):
        pass


# A caller of its own, to be killed: starts a container that waits and says its id.
CALLER = """
import sys
from mansard.containers.engine import connect
from mansard.containers.launch import launched
from tests.containers.launching import launch
with connect(sys.argv[1]) as engine:
    with launched(engine, launch(sys.argv[2], "-c", sys.argv[3])) as container:
        for line in container.lines():
            print(container.ident, flush=True)
"""


def start_caller(daemon: Daemon, image: str, program: str) -> tuple[subprocess.Popen[str], str]:
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, daemon.address, image, program],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert caller.stdout is not None
    return caller, caller.stdout.readline().strip()


def test_container_ends_with_a_host_process_that_is_killed(
    daemon: Daemon, engine: Engine, bare_image: str
) -> None:
    caller, ident = start_caller(daemon, bare_image, WAIT)
    assert [each["Id"] for each in all_containers(engine.client)] == [ident]
    caller.kill()
    caller.communicate()
    wait_for(lambda: not all_containers(engine.client), "the container ends by itself")


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("program", [WAIT, HANG], ids=["willing", "hanging"])
def test_interrupt_ends_the_container(
    daemon: Daemon, engine: Engine, bare_image: str, program: str
) -> None:
    caller, ident = start_caller(daemon, bare_image, program)
    assert ident
    caller.send_signal(signal.SIGINT)
    _, said = caller.communicate(timeout=30)
    assert said.strip().endswith("KeyboardInterrupt")
    assert all_containers(engine.client) == []


# The SDK leaves its socket open where nobody answers.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
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
