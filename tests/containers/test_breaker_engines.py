"""What answers is no engine, or answers nonsense; what is named is no address, or no board."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mansard.containers.engine import connect
from mansard.core.errors import ContainerError, MansardError, UsageError
from tests.containers.stand_in_engine import DOCKER_28, stand_in_engine

MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 600  # a machine with other work needs several times as long


def why_not(address: str) -> MansardError:
    with pytest.raises(MansardError) as caught, connect(address):
        pass
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isprintable()
    assert caught.value.where == address
    assert caught.value.fix
    return caught.value


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:abc",
        "tcp://127.0.0.1:0",
        "tcp://",
        "http://[",
        "http://",
        "ssh://board",
        "unix://docker.sock",
        "/var/run/docker.sock",
    ],
)
def test_what_is_no_address_is_wrong_usage(address: str) -> None:
    error = why_not(address)
    assert isinstance(error, UsageError)
    assert "HOST=user@board" in str(error)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/version", {"ApiVersion": "abc"}),
        ("/version", {"ApiVersion": "1.51", "Components": 7}),
        ("/version", [1, 2]),
        ("/version", None),
        ("/version", b"<html>a printer</html>"),
        ("/info", {"Runtimes": 9}),
        ("/info", {"SecurityOptions": 3}),
        ("/info", {"DiscoveredDevices": [4]}),
        ("/info", [1, 2]),
        ("/info", None),
    ],
)
def test_nonsense_is_told_as_no_engine(folder: Path, path: str, answer: Any) -> None:
    with stand_in_engine(folder, {**DOCKER_28, path: (200, answer)}) as address:
        error = why_not(address)
    assert isinstance(error, ContainerError)
    assert "the server there is not a container engine" in str(error)


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*MANSARD, "bench", "--runs", str(folder / "runs"), "--offline", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=folder
    )


@pytest.mark.parametrize("host", ["-oProxyCommand=touch pwned", "a,$(touch pwned)", "a,a"])
def test_a_hostile_host_is_refused_before_anything_is_done(tmp_path: Path, host: str) -> None:
    done = bench(tmp_path, "--host", host)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1  # no network was scored before
    assert list(tmp_path.iterdir()) == []
