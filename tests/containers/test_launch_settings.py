"""What a container is created with: pure rules, no engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any, cast

import msgspec
import pytest

from mansard.containers.engine import (
    NO_GPU,
    Access,
    EngineFacts,
    access_arguments,
    access_environment,
    choose_access,
    read_facts,
)
from mansard.containers.launch import is_gone, name_process, this_process
from mansard.containers.measurer import gpu_remedy
from mansard.containers.settings import (
    NOBODY,
    ContainerLaunch,
    Mount,
    User,
    can_read,
    choose_user,
    create_arguments,
    device_groups,
)
from mansard.core.errors import ContainerError, UsageError
from tests.containers.stand_in_engine import DOCKER_28, PODMAN


def facts(**changes: object) -> EngineFacts:
    plain = read_facts({"Version": "27.0"}, {"Runtimes": {"runc": {}}})
    return msgspec.structs.replace(plain, **changes)


NVIDIA = facts(runtimes=("nvidia", "runc"))
CDI = read_facts(DOCKER_28["/version"][1], DOCKER_28["/info"][1])
PODMAN_FACTS = read_facts(PODMAN["/version"][1], PODMAN["/info"][1])


@pytest.mark.parametrize(
    ("engine", "gpu", "kind"),
    [
        (facts(), "none", "none"),
        (NVIDIA, "none", "none"),
        (NVIDIA, "jetson", "runtime"),
        (NVIDIA, "card", "requests"),
        (CDI, "jetson", "cdi"),
        (CDI, "card", "cdi"),
        (facts(runtimes=("nvidia",), cdi_folders=("/etc/cdi",)), "jetson", "runtime"),
        (facts(cdi_folders=("/etc/cdi",)), "card", "cdi"),  # an engine that does not list them
        (PODMAN_FACTS, "card", "cdi"),
        (msgspec.structs.replace(PODMAN_FACTS, runtimes=("nvidia",)), "jetson", "cdi"),
    ],
)
def test_the_way_to_the_gpu(engine: EngineFacts, gpu: str, kind: str) -> None:
    access = choose_access(engine, gpu)  # type: ignore[arg-type]
    assert access.kind == kind
    assert access.why


def test_no_way_to_the_gpu_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(ContainerError, match="neither a runtime called nvidia nor CDI") as caught:
        choose_access(facts(), "card")
    assert "nvidia-container-toolkit" in str(caught.value)
    empty = facts(cdi_folders=("/etc/cdi",), cdi_devices=("vendor.com/net=x",))
    with pytest.raises(ContainerError, match=r"found no nvidia\.com/gpu in /etc/cdi") as caught:
        choose_access(empty, "jetson")
    assert "nvidia-ctk cdi generate" in str(caught.value)


def first_request(access: Access) -> Any:
    (request,) = cast(list[Any], access_arguments(access)["device_requests"])
    return request


def test_arguments_of_each_way() -> None:
    jetson = Access(kind="runtime", gpu="jetson", why="")
    assert access_arguments(jetson) == {"runtime": "nvidia"}
    assert access_environment(jetson) == {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "all",
    }
    card = Access(kind="requests", gpu="card", why="")
    request = first_request(card)
    assert (request["Count"], request["Capabilities"]) == (-1, [["gpu"]])
    slice_ = Access(kind="requests", gpu="card", why="", device="MIG-1")
    request = first_request(slice_)
    assert (request["Count"], request["DeviceIDs"]) == (0, ["MIG-1"])
    assert access_environment(slice_)["NVIDIA_VISIBLE_DEVICES"] == "MIG-1"
    cdi = Access(kind="cdi", gpu="card", why="", device="0")
    request = first_request(cdi)
    assert (request["Driver"], request["DeviceIDs"]) == ("cdi", ["nvidia.com/gpu=0"])
    assert access_environment(cdi) == {}
    assert access_arguments(NO_GPU) == {}


def test_remedy_where_a_container_was_started_without_a_gpu_inside() -> None:
    cdi = Access(kind="cdi", gpu="card", why="")
    assert "podman" in gpu_remedy(cdi, PODMAN_FACTS)
    assert "nvidia-ctk cdi generate" in gpu_remedy(cdi, CDI)
    runtime = Access(kind="runtime", gpu="jetson", why="")
    assert "tegrastats" in gpu_remedy(runtime, NVIDIA)


def launch(**changes: object) -> ContainerLaunch:
    plain = ContainerLaunch(image="x", command=("python3",), user=User(uid=7, gid=8, why=""))
    return msgspec.structs.replace(plain, **changes)


def test_nothing_can_be_written_and_nothing_is_allowed() -> None:
    arguments = create_arguments(
        launch(
            board=Path("/boards/orin"),
            with_debug_files=True,
            mounts=(Mount(Path("/usr"), PurePosixPath("/usr")),),
            groups=(44,),
        ),
        "me",
    )
    assert arguments["privileged"] is False
    assert arguments["cap_drop"] == ["ALL"]
    assert "cap_add" not in arguments
    assert arguments["security_opt"] == ["no-new-privileges:true"]
    assert arguments["network_mode"] == "none"
    assert arguments["read_only"] is True
    assert arguments["user"] == "7:8"
    assert arguments["group_add"] == ["44"]
    assert arguments["auto_remove"] is True
    assert [(each["Target"], each["ReadOnly"]) for each in arguments["mounts"]] == [
        ("/usr", True),
        ("/board", True),
        ("/sys/kernel/debug", True),
    ]
    assert "volumes" not in arguments
    assert "devices" not in arguments
    assert "mem_limit" not in arguments
    assert "cpuset_cpus" not in arguments


def test_processes_are_the_container_s_own_with_a_gpu_too() -> None:
    for access in (NO_GPU, Access(kind="runtime", gpu="jetson", why="")):
        arguments = create_arguments(launch(access=access), "me")
        assert "pid_mode" not in arguments
        assert arguments["init"] is True


def test_the_environment_of_the_caller_comes_last() -> None:
    arguments = create_arguments(launch(environment={"HOME": "/elsewhere"}), "me")
    assert arguments["environment"]["HOME"] == "/elsewhere"
    assert arguments["environment"]["NUMBA_CACHE_DIR"] == "/tmp/numba"  # noqa: S108


def test_a_folder_is_mounted_by_its_absolute_path() -> None:
    with pytest.raises(UsageError, match="absolute path"):
        create_arguments(launch(board=Path("boards/orin")), "me")


def test_a_caller_who_is_not_root_stays_who_it_is() -> None:
    user = choose_user(1000, 1001, needed=[Path("/proc/kcore")], environment={"SUDO_UID": "5"})
    assert (user.uid, user.gid) == (1000, 1001)
    assert choose_user(1000, 1001, is_rootless=True).text == "0:0"


def test_root_hands_on_who_called_sudo_or_nobody(tmp_path: Path) -> None:
    sudo = {"SUDO_UID": "1000", "SUDO_GID": "1000"}
    assert choose_user(0, 0, environment=sudo).text == "1000:1000"
    assert choose_user(0, 0, environment={}).uid == NOBODY
    assert choose_user(0, 0, environment={"SUDO_UID": "1000"}).uid == NOBODY
    for junk in ("", "x", "0", "-1", "99999999999", "²"):
        environment = {"SUDO_UID": junk, "SUDO_GID": "1000"}
        assert choose_user(0, 0, environment=environment).uid == NOBODY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have files that are its own alone")
def test_root_stays_root_only_for_what_is_root_s_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert choose_user(0, 0, needed=[tmp_path], environment={}).uid == NOBODY
    tmp_path.chmod(0o700)
    user = choose_user(0, 0, needed=[tmp_path], environment={})
    assert user.text == "0:0"
    assert str(tmp_path) in user.why
    # Without a capability not even root reads what is somebody's alone.
    os.chown(tmp_path, 1000, 1001)
    assert choose_user(0, 0, needed=[tmp_path], environment={}).text == "1000:1001"


# Mode, whether 1000:1001 can read a folder of 1000:1, 2:1001 and 2:1 with it.
MODES = [
    (0o755, True, True, True),
    (0o700, True, False, False),
    (0o750, True, True, False),
    (0o704, True, False, False),  # read without passing through is not enough
    (0o075, False, True, True),  # its owner is shut out, others are not
]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("mode", "owner", "group", "others"), MODES)
def test_who_can_read_a_folder(
    mode: int, owner: bool, group: bool, others: bool, tmp_path: Path
) -> None:
    tmp_path.chmod(mode)
    found = []
    for uid, gid in ((1000, 1), (2, 1001), (2, 1)):
        os.chown(tmp_path, uid, gid)
        found.append(can_read(tmp_path, 1000, 1001))
    assert found == [owner, group, others]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_groups_that_own_the_gpu_s_devices(tmp_path: Path) -> None:
    nodes = {
        "nvmap": (44, 0o660),
        "nvhost-ctrl-gpu": (44, 0o660),
        "dri/renderD128": (109, 0o660),
        "nvidia0": (7, 0o666),  # open to all
        "nvidiactl": (0, 0o660),  # root's group: never handed on
        "kmsg": (4, 0o640),  # no GPU
    }
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name, (group, mode) in nodes.items():
        path = tmp_path / "dev" / name
        path.touch()
        os.chown(path, 0, group)
        path.chmod(mode)
    assert device_groups(tmp_path) == (44, 109)
    assert device_groups(tmp_path / "nothing") == ()


def test_this_process_is_not_gone_and_others_are() -> None:
    assert not is_gone(this_process())
    boot, pid, started = this_process().split("/")
    assert is_gone(f"{boot}/{pid}/{int(started) + 1}")  # its number was another one's before
    assert not is_gone(f"elsewhere/{pid}/1")
    for junk in ("", "x", f"{boot}//", f"{boot}/x/y", f"{boot}/{pid}", f"{boot}/-1/-1"):
        assert not is_gone(junk)


def test_there_is_no_owner_without_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        # A zombie: it has ended, but nobody has looked at it yet.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ContainerError, match="no process"):
            name_process(child.pid)
