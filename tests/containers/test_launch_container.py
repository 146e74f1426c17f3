"""A real container: what it may do, and what it sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mansard.containers.engine import Access, ContainerEngine
from mansard.containers.launch import launched
from mansard.core.errors import ContainerError
from tests.containers.launching import SOMEBODY, all_containers, launch
from tests.containers.programs import LOOK, SCRATCH
from tests.containers.throwaway import (
    REPOSITORY,
)
from tests.waiting import awaited

pytestmark = pytest.mark.docker


def test_container_may_do_nothing_but_compute(engine: ContainerEngine, bare_image: str) -> None:
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
    assert awaited(lambda: not all_containers(engine.client))


def test_container_of_a_root_caller_who_needs_root_has_no_capability_either(
    engine: ContainerEngine, bare_image: str
) -> None:
    root = type(SOMEBODY)(uid=0, gid=0, why="the test")
    program = LOOK.replace("REPO", repr(str(REPOSITORY)))
    with launched(engine, launch(bare_image, "-c", program, user=root), b"\n") as container:
        seen = json.loads(next(container.lines()))
    assert seen["ids"] == [0, 0, 0, 0]
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert "written" not in {seen["writes"][path] for path in seen["writes"] if path != SCRATCH}


def test_runtime_of_a_jetson_brings_its_variables(engine: ContainerEngine, bare_image: str) -> None:
    access = Access(kind="runtime", gpu="jetson", why="the test")
    program = LOOK.replace("REPO", repr(str(REPOSITORY)))
    with launched(engine, launch(bare_image, "-c", program, access=access), b"\n") as container:
        seen = json.loads(next(container.lines()))
        told = engine.client.api.inspect_container(container.ident)
    assert told["HostConfig"]["Runtime"] == "nvidia"
    assert seen["environment"]["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert seen["environment"]["NVIDIA_DRIVER_CAPABILITIES"] == "all"
    assert seen["capabilities"] == ["0000000000000000"] * 5
    assert all_containers(engine.client) == []


def test_a_simulated_board_is_there_to_read(
    engine: ContainerEngine, bare_image: str, tmp_path: Path
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


def test_debug_files_are_there_to_read(engine: ContainerEngine, bare_image: str) -> None:
    root = type(SOMEBODY)(uid=0, gid=0, why="the test")
    program = "print(open('/proc/mounts').read())"
    asked = launch(bare_image, "-c", program, user=root, with_debug_files=True)
    with launched(engine, asked) as container:
        mounts = [line.decode().split() for line in container.lines() if line]
    (options,) = [fields[3] for fields in mounts if fields[1] == "/sys/kernel/debug"]
    assert "ro" in options.split(",")
