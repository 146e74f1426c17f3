"""A controller in a real container: what it may do, and that it puts the board back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from mansard.containers.board_controller import CONTROLLER_LABEL, board_controller
from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.fleet import BoardWorker, run_fleet
from mansard.containers.hosts import Host
from mansard.containers.settings import ContainerLaunch, Mount, User
from mansard.containers.tunnel import open_tunnel
from mansard.core.errors import DeviceError, MansardError
from mansard.core.hashing import content_hash
from mansard.device.controller import LocalController
from mansard.simulator import create_board, snapshot
from tests.containers.ssh_board import end_connections, ssh_board, why_no_sshd
from tests.containers.throwaway import (
    Daemon,
    host_folders,
    import_bare_image,
    throwaway_daemon,
)
from tests.waiting import awaited

pytestmark = [pytest.mark.docker, pytest.mark.board(is_on=False)]
REAL = PurePosixPath("/")


@pytest.fixture
def launch(bare_image: str) -> ContainerLaunch:
    return launch_of(bare_image)


def launch_of(image: str) -> ContainerLaunch:
    mounts = tuple(Mount(folder, PurePosixPath(folder)) for folder in host_folders())
    user = User(uid=65534, gid=65534, why="no board controller takes it")
    return ContainerLaunch(image=image, command=(sys.executable,), user=user, mounts=mounts)


def controllers(engine: ContainerEngine) -> list[Any]:
    return list(engine.client.api.containers(filters={"label": CONTROLLER_LABEL}))


def controller_of(engine: ContainerEngine) -> Any:
    """What the engine says of its one controller, which runs."""
    (found,) = controllers(engine)
    return engine.client.api.inspect_container(found["Id"])


def test_a_sweep_through_a_container_is_a_sweep(
    engine: ContainerEngine, launch: ContainerLaunch, board: Path
) -> None:
    before, local = snapshot(board), LocalController(board)
    with board_controller(engine, launch, PurePosixPath(board), "bench") as controller:
        # Hashed as a run's id is: it must not hang on how the board is reached.
        assert content_hash(controller.identify()) == content_hash(local.identify())
        assert content_hash(controller.choose_modes("all")) == content_hash(
            local.choose_modes("all")
        )
        with controller.hold() as held:
            (mode,) = controller.choose_modes("gpu=612MHz,cores=4")
            assert held.set(mode).gpu_hz == 612e6
            assert snapshot(board) != before
            found = controller_of(engine)
        assert snapshot(board) == before
    assert awaited(lambda: not controllers(engine))
    config = found["HostConfig"]
    assert (config["CapAdd"] or [], config["CapDrop"]) == ([], ["ALL"])
    assert (config["Privileged"], config["ReadonlyRootfs"]) == (False, True)
    assert (config["NetworkMode"], config["AutoRemove"]) == ("none", True)
    assert "no-new-privileges:true" in config["SecurityOpt"]
    owner = board.stat()
    assert found["Config"]["User"] == f"{owner.st_uid}:{owner.st_gid}"
    (writable,) = (mount for mount in found["Mounts"] if mount["RW"])
    assert (writable["Source"], writable["Destination"]) == (str(board), "/board")


def test_this_machine_as_a_board_by_its_own_root(
    engine: ContainerEngine, launch: ContainerLaunch
) -> None:
    here = LocalController()
    with board_controller(engine, launch, REAL, "here") as controller:
        # Seen from its own root, links and all, it is the machine that it is.
        assert content_hash(controller.identify()) == content_hash(here.identify())
        assert controller.choose_modes("all") == here.choose_modes("all")
        found = controller_of(engine)
        pid = found["State"]["Pid"]
        held = Path(f"/proc/{pid}/mountinfo").read_text()
        capabilities = effective(pid)
    assert found["HostConfig"]["CapAdd"] in (["SYS_CHROOT"], ["CAP_SYS_CHROOT"])
    assert found["HostConfig"]["Privileged"] is False
    assert found["Config"]["User"] == "0:0"
    # CAP_SYS_CHROOT is number 18 (include/uapi/linux/capability.h): 1 << 18 = 0x40000
    assert capabilities == 0x40000
    options = {line.split()[4]: line.split()[5] for line in held.splitlines()}
    assert "rw" in options["/board/sys"].split(",")
    assert "ro" in options["/sys"].split(",")  # the container's own


def effective(pid: int) -> int:
    """The capabilities that a process can use now, by its entry in /proc."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (text,) = (line.split()[1] for line in lines if line.startswith("CapEff:"))
    return int(text, 16)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_container_that_is_ended_leaves_the_board_mended(
    engine: ContainerEngine, launch: ContainerLaunch, board: Path, how: str
) -> None:
    before = snapshot(board)

    def sweep() -> None:
        with board_controller(engine, launch, PurePosixPath(board), "bench") as controller:
            modes = controller.choose_modes("gpu=612MHz,cores=4")
            with controller.hold() as held:
                held.set(modes[0])
                (found,) = controllers(engine)
                getattr(engine.client.api, how)(found["Id"])
                held.set(modes[0])

    with pytest.raises(DeviceError, match="bench: its board controller has ended"):
        sweep()
    assert (snapshot(board) == before) is (how == "stop")
    with board_controller(engine, launch, PurePosixPath(board), "bench") as controller:
        lines = controller.put_back()
    assert (not lines) is (how == "stop")
    assert snapshot(board) == before


CALLER = """
import sys
from pathlib import PurePosixPath
from tests.containers.test_fleet_controller import launch_of
from mansard.containers.board_controller import board_controller
from mansard.containers.engine import connect

address, image, board = sys.argv[1:]
with connect(address) as engine:
    with board_controller(engine, launch_of(image), PurePosixPath(board), "bench") as controller:
        with controller.hold() as held:
            held.set(controller.choose_modes("gpu=612MHz,cores=4")[0])
            print("set", flush=True)
            sys.stdin.read()
"""


def test_when_the_caller_is_killed_the_container_puts_the_board_back(
    engine: ContainerEngine, launch: ContainerLaunch, board: Path
) -> None:
    before = snapshot(board)
    command = [sys.executable, "-c", CALLER, engine.address, launch.image, str(board)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    ) as caller:  # fmt: skip
        assert caller.stdout is not None
        assert caller.stdout.readline() == "set\n"
        assert snapshot(board) != before
        os.kill(caller.pid, signal.SIGKILL)
    # The next one waits for it: it is not ended by force while it puts the board back.
    with board_controller(engine, launch, PurePosixPath(board), "bench") as controller:
        assert controller.put_back() == ()
    assert snapshot(board) == before
    assert awaited(lambda: not controllers(engine))


@pytest.mark.usefixtures("daemon")  # it skips where there can be none
def test_when_the_engine_dies_the_controller_puts_the_board_back_by_itself(board: Path) -> None:
    before = snapshot(board)

    def sweep(daemon: Daemon) -> None:
        with (
            connect(daemon.address) as own,
            board_controller(
                own, launch_of(import_bare_image(own.client)), PurePosixPath(board), "bench",
                quiet_s=3,
            ) as controller,
            controller.hold() as held,
        ):  # fmt: skip
            mode = controller.choose_modes("gpu=612MHz,cores=4")[0]
            held.set(mode)
            os.kill(daemon.pid, signal.SIGKILL)  # the container's input stays open all the same
            held.set(mode)

    with throwaway_daemon() as daemon:
        with pytest.raises(DeviceError, match="bench: its board controller has ended"):
            sweep(daemon)
        assert awaited(lambda: not (board / "var/lib/mansard/journal.json").exists())
    assert snapshot(board) == before


def test_a_fleet_of_two_boards_and_one_that_is_none(
    engine: ContainerEngine, launch: ContainerLaunch, tmp_path: Path
) -> None:
    roots = {name: create_board(name, tmp_path) for name in ("agx-orin", "orin-nano-super")}
    before = {name: snapshot(root) for name, root in roots.items()}
    (tmp_path / "empty").mkdir()
    places = {**roots, "broken": tmp_path / "empty", "gone": tmp_path / "none"}
    hosts = [Host(name=name, root=PurePosixPath(place)) for name, place in places.items()]

    def bench(worker: BoardWorker) -> float | None:
        with (
            connect(engine.address) as own,
            board_controller(own, launch, worker.host.root, worker.name) as controller,
        ):
            worker.on_stop(controller.end)
            worker.claim(controller.identify())
            with controller.hold() as held:
                worker.send("held")
                return held.set(controller.choose_modes("gpu=612MHz")[0]).gpu_hz

    said: list[str] = []
    fleet = run_fleet(hosts, bench, lambda word: said.append(word.board))
    assert sorted(said) == sorted(roots)
    assert fleet.results == {"agx-orin": 612e6, "orin-nano-super": 612e6}
    assert fleet.errors.keys() == {"broken", "gone"}
    with pytest.raises(MansardError, match=r"2 of 4 boards failed: broken: .*is not a simulated"):
        fleet.check()
    assert {name: snapshot(root) for name, root in roots.items()} == before


@pytest.mark.skipif(why_no_sshd() is not None, reason=str(why_no_sshd()))
def test_a_board_behind_ssh_and_what_becomes_of_it_when_the_network_goes(
    daemon: Daemon, launch: ContainerLaunch, board: Path, tmp_path: Path
) -> None:
    before = snapshot(board)
    host = Host(
        name="orin", ssh="orin", socket=daemon.address.removeprefix("unix://"),
        root=PurePosixPath(board),
    )  # fmt: skip

    def sweep(pid: int, options: tuple[str, ...]) -> None:
        with (
            open_tunnel(host, options) as tunnel,
            connect(tunnel.address) as far,
            board_controller(far, launch, host.root, host.name) as controller,
            controller.hold() as held,
        ):
            mode = controller.choose_modes("gpu=612MHz,cores=4")[0]
            held.set(mode)
            assert snapshot(board) != before
            end_connections(pid)
            held.set(mode)

    with (
        ssh_board(tmp_path / "ssh") as ssh,
        pytest.raises(DeviceError, match="orin: its board controller has ended"),
    ):
        sweep(ssh.pid, ssh.options)
    assert awaited(lambda: not (board / "var/lib/mansard/journal.json").exists())
    assert snapshot(board) == before
