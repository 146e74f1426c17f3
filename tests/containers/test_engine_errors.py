"""What engines say when something is missing, as one line with its remedy."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from docker.errors import DockerException

from mansard.containers.engine import Access, AccessKind, ContainerEngine, GpuKind, connect
from mansard.containers.engine_errors import explain
from mansard.containers.launch import launched
from mansard.core.errors import ContainerError, MansardError, StorageError
from tests.containers.launching import launch
from tests.containers.throwaway import import_bare_image, throwaway_daemon

# Answers of engines that cannot be had here. From the sources of moby, the CDI library and
# NVIDIA's container toolkit, and from people's reports.
SAID = [
    (
        "failed to create shim task: OCI runtime create failed: could not apply required "
        "modification to OCI specification: error modifying OCI spec: failed to inject CDI "
        "devices: unresolvable CDI devices nvidia.com/gpu=all: unknown",
        "finds no CDI description",
        "nvidia-ctk cdi generate",
    ),
    (
        "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=all",
        "finds no CDI description",
        "nvidia-ctk cdi generate",
    ),
    (
        "unknown or invalid runtime name: nvidia",
        "no runtime called nvidia",
        "nvidia-ctk runtime configure",
    ),
    (
        "OCI runtime create failed: runc create failed: nvidia-container-cli: initialization "
        "error: nvml error: driver/library version mismatch: unknown",
        "driver was updated",
        "reboot",
    ),
    (
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.6, please "
        "update your driver to a newer version, or use an earlier cuda container: unknown",
        "driver is too old",
        "update the driver",
    ),
    (
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: "
        "cannot open shared object file: no such file or directory: unknown",
        "found no GPU that works",
        "nvidia-smi",
    ),
    (
        "failed to create shim task: OCI runtime create failed: runc create failed: unable to "
        "start container process: error during container init: write init-p: broken pipe: unknown",
        "cannot start the container",
        "journalctl",
    ),
    ("exec /opt/mansard/bin/python3: exec format error", "another kind of processor", "build"),
    ("client version 1.52 is too new. Maximum supported API version is 1.41", "apart", "update"),
    ("HTTPConnectionPool: Read timed out. (read timeout=60)", "in time", "journalctl"),
    ("something that nobody has seen yet", "refuses: something that nobody", "journalctl"),
]


@pytest.mark.parametrize(("said", "what", "fix"), SAID)
def test_what_an_engine_says_gets_its_remedy(said: str, what: str, fix: str) -> None:
    error = explain(DockerException(said), "here")
    assert isinstance(error, ContainerError)
    assert what in error.what
    assert fix in (error.fix or "")
    assert error.where == "here"


def test_a_full_disk_of_the_engine_is_an_error_of_storage() -> None:
    error = explain(DockerException("mkdir /var/lib/docker/x: no space left on device"), "here")
    assert isinstance(error, StorageError)
    assert "docker system df" in str(error)


def test_a_long_or_hostile_answer_stays_one_readable_line() -> None:
    error = explain(DockerException("\x1b[2J\n" + "x" * 10_000), "here")
    assert str(error).isprintable()
    assert len(str(error)) < 1000


@pytest.mark.docker
@pytest.mark.parametrize(
    ("kind", "gpu", "words", "fix"),
    [
        ("requests", "card", "cannot hand a GPU on", "nvidia-ctk runtime configure"),
        ("cdi", "card", "does not know CDI", "Docker 25 or newer"),
    ],
)
def test_a_real_engine_without_a_gpu(
    engine: ContainerEngine, bare_image: str, kind: AccessKind, gpu: GpuKind, words: str, fix: str
) -> None:
    access = Access(kind=kind, gpu=gpu, why="the test")
    error = why_not(engine, launch(bare_image, "-c", "pass", access=access))
    assert words in error.what
    assert fix in (error.fix or "")


@pytest.mark.docker
@pytest.mark.usefixtures("daemon")  # it skips where there can be none
def test_a_real_engine_whose_disk_is_full() -> None:
    with throwaway_daemon(disk_bytes=64 << 20) as own, connect(own.address) as engine:
        image = import_bare_image(engine.client)
        data = own.folder / "data"
        with (data / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 12))
        error = why_not(engine, launch(image, "-c", "pass"))
        assert isinstance(error, StorageError)
        assert "docker system df" in str(error)
        free_bytes = engine.facts.free_bytes()
        assert free_bytes is not None
        assert free_bytes < 1 << 20


@pytest.mark.docker
def test_a_real_engine_without_the_image(engine: ContainerEngine) -> None:
    error = why_not(engine, launch("mansard-no-such-image:1", "-c", "pass"))
    assert "the image is not on this machine" in error.what
    assert "mansard data image build" in (error.fix or "")


@pytest.mark.docker
def test_a_real_engine_without_the_runtime(engine: ContainerEngine, bare_image: str) -> None:
    with pytest.raises(Exception, match="nknown") as caught:
        engine.client.containers.create(bare_image, ["x"], runtime="nvidia-of-another-name")
    error = explain(caught.value, "here")
    assert "no runtime called nvidia" in error.what


@pytest.mark.docker
def test_a_real_image_without_python(engine: ContainerEngine, bare_image: str) -> None:
    asked = launch(bare_image)
    bare = type(asked)(image=bare_image, command=("/no/python3",), user=asked.user)
    with (
        launched(engine, bare) as container,
        pytest.raises(ContainerError, match="lacks what is to run in it") as caught,
    ):
        list(container.lines())
    assert "mansard data image build" in str(caught.value)


def why_not(engine: ContainerEngine, asked: Any) -> MansardError:
    """Why a container cannot be had; nothing of it may be left."""
    with pytest.raises(MansardError) as caught, launched(engine, asked):
        pass
    assert engine.client.api.containers(all=True) == []
    assert len(str(caught.value).splitlines()) == 1
    return caught.value
