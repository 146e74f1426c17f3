"""Connecting to engines: real, stand-in, and none at all. Each failure has a remedy."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.engine import addresses, connect, read_facts
from mansard.core.errors import ContainerError, MansardError, UsageError
from tests.containers.stand_in_engine import DOCKER_28, PODMAN, stand_in_engine
from tests.containers.throwaway import Daemon


def why_not(address: str) -> MansardError:
    with pytest.raises(MansardError) as caught, connect(address):
        pass
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.where == address
    assert caught.value.fix
    return caught.value


@pytest.mark.docker
def test_facts_of_the_real_engine(daemon: Daemon) -> None:
    with connect(daemon.address) as engine:
        facts = engine.facts
        free_bytes = facts.free_bytes()
    assert facts.name == "Docker"
    assert facts.has_nvidia_runtime
    assert not facts.is_rootless
    assert facts.is_local
    assert facts.data_root == str(daemon.folder / "data")
    assert free_bytes is not None
    # Another process may write meanwhile: the same disk, to a gigabyte.
    assert abs(free_bytes - shutil.disk_usage(daemon.folder).free) < 1 << 30


def test_facts_of_a_newer_engine_with_cdi(folder: Path) -> None:
    with stand_in_engine(folder, DOCKER_28) as address, connect(address) as engine:
        facts = engine.facts
    assert (facts.name, facts.version, facts.architecture) == ("Docker", "28.3.2", "aarch64")
    assert facts.cdi_folders == ("/etc/cdi", "/var/run/cdi")
    assert facts.cdi_devices == ("nvidia.com/gpu=all",)
    assert facts.cgroup_version == "2"
    assert not facts.has_nvidia_runtime
    assert not facts.is_local
    assert facts.free_bytes() is None  # /var/lib/docker of another machine


def test_podman_is_known_for_what_it_is(folder: Path) -> None:
    with stand_in_engine(folder, PODMAN) as address, connect(address) as engine:
        assert engine.facts.is_podman
        assert engine.facts.is_rootless
        assert engine.facts.cdi_devices is None


def test_no_socket(tmp_path: Path) -> None:
    error = why_not(f"unix://{tmp_path}/no.sock")
    assert "there is no container engine" in str(error)
    assert "docker.io" in str(error)


def test_a_socket_that_nobody_listens_at(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "dead.sock"))
    error = why_not(f"unix://{folder}/dead.sock")
    assert "no container engine answers" in str(error)
    assert "systemctl start docker" in str(error)


def test_a_file_that_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "no container engine answers" in str(why_not(f"unix://{tmp_path}/file"))


def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    error = why_not(f"unix://{tmp_path}/{'x' * 120}")
    assert "longer than 107 bytes" in str(error)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:1", "ssh://nobody@127.0.0.1", "npipe:////./pipe/x", "junk", ""]
)
def test_addresses_that_are_not_sockets(address: str) -> None:
    with pytest.raises(MansardError) as caught, connect(address or "unix://"):
        pass
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.fix


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_user_without_the_right(folder: Path) -> None:
    folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "engine.sock"))
        listening.listen()
        (folder / "engine.sock").chmod(0o600)
        os.seteuid(1234)
        try:
            error = why_not(f"unix://{folder}/engine.sock")
        finally:
            os.seteuid(0)
    assert "may not talk to the container engine" in str(error)
    assert "usermod -aG docker" in str(error)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"/version": (200, b"<html>no engine</html>")}, "not a container engine"),
        ({"/version": (500, {"message": "boom"})}, "boom"),
        ({**DOCKER_28, "/version": (200, {"ApiVersion": "1.24", "Version": "1"})}, "too old"),
        ({"/version": (200, {})}, "not a container engine"),
        ({"/version": (200, [])}, "not a container engine"),
        (
            {"/version": (200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"}), "/info": (200, 5)},
            "not a container engine",
        ),
    ],
)
def test_what_answers_is_no_engine_or_too_old(
    folder: Path, answers: dict[str, tuple[int, Any]], words: str
) -> None:
    with stand_in_engine(folder, answers) as address:
        assert words in str(why_not(address))


def test_the_first_engine_that_answers_is_taken(folder: Path) -> None:
    (folder / "podman").mkdir()
    assert addresses({"DOCKER_HOST": "tcp://x:1", "XDG_RUNTIME_DIR": str(folder)}) == ("tcp://x:1",)
    asked = addresses({"XDG_RUNTIME_DIR": str(folder)})
    assert asked[0] == "unix:///var/run/docker.sock"
    with stand_in_engine(folder / "podman", PODMAN) as address:
        Path(address.removeprefix("unix://")).rename(folder / "podman/podman.sock")
        wanted = f"unix://{folder}/podman/podman.sock"
        assert wanted in addresses({"XDG_RUNTIME_DIR": str(folder)})
        with connect(None, {"DOCKER_HOST": wanted}) as engine:
            assert engine.facts.is_podman


def test_facts_of_an_engine_that_says_next_to_nothing() -> None:
    facts = read_facts({}, {})
    assert facts.runtimes == ()
    assert facts.cdi_devices is None
    assert facts.cgroup_version is None
    assert facts.free_bytes() is None


def test_without_any_engine_the_usual_one_is_named(folder: Path) -> None:
    if Path("/var/run/docker.sock").exists():
        pytest.skip("this machine has an engine")
    with (
        pytest.raises(ContainerError, match=r"/var/run/docker\.sock"),
        connect(None, {"XDG_RUNTIME_DIR": str(folder)}),
    ):
        pass


@pytest.mark.parametrize("name", ["DOCKER_TLS_VERIFY", "DOCKER_TLS"])
def test_tls_that_is_asked_for_is_refused_and_never_left_out(name: str) -> None:
    """A plain connection would look like a safe one; so none is opened."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        address = f"tcp://me:secret@127.0.0.1:{server.getsockname()[1]}"
        for environment in ({"DOCKER_HOST": address, name: "1"}, {name: "1"}):
            named = None if "DOCKER_HOST" in environment else address
            with (
                pytest.raises(UsageError, match=f"{name} is set, and TLS is not") as caught,
                connect(named, environment),
            ):
                pass
            assert "secret" not in str(caught.value)
            assert "HOST=user@board" in str(caught.value)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    ("said", "is_rootless"),
    [
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, True),  # Docker, podman 4.9
        ({"SecurityOptions": ["name=seccomp"], "Rootless": True}, True),  # podman 4.3
        ({"SecurityOptions": ["name=seccomp"]}, False),  # podman 4.3 of root
    ],
)
def test_a_rootless_engine_is_known(said: dict[str, Any], is_rootless: bool) -> None:
    assert read_facts(PODMAN["/version"][1], said).is_rootless is is_rootless
