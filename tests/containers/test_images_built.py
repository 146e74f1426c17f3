"""An image built for real, without a registry, and run as bare as a measurement runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.containers.engine import ContainerEngine, connect
from mansard.containers.images.building import (
    Order,
    build_image,
    libraries_step,
    ready_image,
    rooms_step,
)
from mansard.containers.images.fitting import ensure_image
from mansard.containers.images.store import image_identity, list_images
from mansard.core.errors import ContainerError
from mansard.core.version import VERSION
from tests.containers.image_base import BASE, fill_with_wheels
from tests.containers.image_here import Here, python_in
from tests.containers.throwaway import Daemon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

# Kernels measured by the program itself, through its plan; everything it writes is in /tmp.
MEASURE = """
import os, msgspec, pathlib
from mansard.core.storage.documents import read_document, write_document
from mansard.microbench.__main__ import main
from mansard.microbench.plan import KernelPlan
os.chdir("/tmp")
path = pathlib.Path("plan.json")
assert main(["plan.json", "--make", "brief", "--mode", "1c"]) == 0
plan = read_document(path, KernelPlan)
few = tuple(t for t in plan.trials if t.kernel in ("fma", "triad"))[:2]
short = msgspec.structs.replace(plan.protocol, time_cap_s=0.2)
write_document(path, msgspec.structs.replace(plan, trials=few, protocol=short))
assert main(["plan.json"]) == 0
"""
# What there must not be: anything writable but /tmp, a cache, a wheel, pip's own folders.
LOOK = """
import json, os, site, sys
found = []
for folder, _, files in os.walk("/"):
    if folder.startswith(("/proc", "/sys", "/dev", "/tmp")):
        continue
    found += [os.path.join(folder, name) for name in files if name.endswith(".whl")]
    if folder == "/build" or os.path.basename(folder) == ".cache":
        found.append(folder)
try:
    open("/opt/mansard/x", "w")
    found.append("writable")
except OSError:
    pass
print(json.dumps({"found": found, "uid": os.getuid(), "site": site.getsitepackages(),
                  "tests": os.path.exists(site.getsitepackages()[0] + "/numpy/tests"),
                  "environment": dict(os.environ)}))
"""


@pytest.fixture(scope="module")
def engine(daemon: Daemon) -> Iterator[ContainerEngine]:
    with connect(daemon.address) as connected:
        yield connected


def test_it_is_built_from_wheels_alone_and_says_size_and_time(
    built_image: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    built = built_image.built
    own_mb = (built.size_bytes - built_image.base_bytes) / 1e6
    with capsys.disabled():
        sys.stdout.write(
            f"\nimage: {built.size_bytes / 1e6:.0f} MB, {own_mb:.0f} MB of it beyond the base; "
            f"built in {built.build_s:.1f} s, prepared in {built_image.prepare_s:.1f} s\n"
        )
    assert not built.was_there
    assert built.build_s > 0
    assert built.tag.startswith(f"mansard/here:{VERSION}-")
    assert built.digest.startswith("sha256:")
    # The libraries alone are 250 MB; an image with its wheels left in would be twice that.
    assert 200 < own_mb < 400
    said = "\n".join(built_image.lines)
    assert "installing libraries.txt from wheels" in said
    assert "Looking in indexes" not in said


def test_it_measures_as_anybody_on_a_root_that_cannot_be_written(
    engine: ContainerEngine, built_image: Here
) -> None:
    said = python_in(engine, built_image.built.tag, MEASURE)
    assert '"measured":2,"resumed":0' in said.splitlines()[-1]


def test_nothing_is_left_in_it_that_only_served_the_build(
    engine: ContainerEngine, built_image: Here
) -> None:
    seen = json.loads(python_in(engine, built_image.built.tag, LOOK))
    assert seen["found"] == []
    assert seen["tests"] is False
    assert seen["uid"] == 12345
    # NVIDIA's packages look for their libraries there alone.
    assert seen["site"][0].startswith("/opt/mansard/lib/python3")
    for name in ("HOME", "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH"):
        assert seen["environment"][name].startswith("/tmp")  # noqa: S108 - of the container


def test_its_labels_say_where_it_comes_from(engine: ContainerEngine, built_image: Here) -> None:
    labels = engine.client.images.get(built_image.built.tag).labels
    assert labels["org.opencontainers.image.version"] == VERSION
    assert labels["org.opencontainers.image.revision"]
    assert labels["org.opencontainers.image.base.name"] == built_image.image.base
    assert labels["mansard.image"] == "here"
    assert built_image.built.tag.endswith(labels["mansard.source"])


def test_it_runs_as_nobody_where_no_user_is_named(
    engine: ContainerEngine, built_image: Here
) -> None:
    config = engine.client.images.get(built_image.built.tag).attrs["Config"]
    assert config["User"] == "65534:65534"
    assert config["Entrypoint"] == ["/opt/mansard/bin/python3", "-m", "mansard.microbench"]


def test_what_is_there_is_not_built_again(engine: ContainerEngine, built_image: Here) -> None:
    lines: list[str] = []
    again = build_image(engine, built_image.image, Order(tell=lines.append))
    assert again.was_there
    assert (again.tag, again.digest) == (built_image.built.tag, built_image.built.digest)
    assert lines == []
    image = ensure_image(engine, built_image.image, is_offline=True)
    assert (image.name, image.digest) == (again.tag, again.digest)
    assert image_identity(engine, again.tag) == image


def test_the_build_leaves_no_container_and_nothing_of_its_stage(
    engine: ContainerEngine, built_image: Here
) -> None:
    client = engine.client
    assert client.containers.list(all=True, filters={"ancestor": built_image.image.base}) == []
    stages = client.images.list(all=True, filters={"label": "mansard.stage=build"})
    assert stages == []


def test_it_is_listed(engine: ContainerEngine, built_image: Here) -> None:
    (stored,) = [each for each in list_images(engine) if each.tag == built_image.built.tag]
    assert (stored.name, stored.version) == ("here", VERSION)
    assert stored.digest == built_image.built.digest
    assert stored.size_bytes == built_image.built.size_bytes


def test_offline_the_rooms_are_built_from_the_libraries_that_are_there(
    engine: ContainerEngine, built_image: Here
) -> None:
    again = msgspec.structs.replace(built_image.image, name="again")
    here = engine.client.images.get(libraries_step(built_image.image).tag)
    here.tag(*libraries_step(again).tag.rsplit(":", 1))
    assert ready_image(engine, again) is None
    image = ensure_image(engine, again, is_offline=True)
    assert image.name == rooms_step(again, libraries_step(again), "").tag
    layers = engine.client.images.get(image.digest).attrs["RootFS"]["Layers"]
    assert layers[: len(here.attrs["RootFS"]["Layers"])] == here.attrs["RootFS"]["Layers"]


def test_offline_nothing_is_fetched(engine: ContainerEngine, built_image: Here) -> None:
    other = msgspec.structs.replace(built_image.image, base="mansard-test/not-there:1")
    with pytest.raises(
        ContainerError, match=r"nothing may be downloaded.*mansard data image load FILE"
    ):
        ensure_image(engine, other, is_offline=True)
    with pytest.raises(ContainerError, match=r"the base mansard-test/not-there:1 is not on this"):
        ensure_image(engine, other, is_offline=True, wheels=built_image.wheels)


def test_a_folder_of_wheels_that_lacks_one_is_one_clear_line(
    engine: ContainerEngine, built_image: Here, tmp_path: Path
) -> None:
    fill_with_wheels(tmp_path, ["msgspec"])
    engine.client.images.get(BASE).tag("mansard-test/lacking", "1")
    other = msgspec.structs.replace(built_image.image, base="mansard-test/lacking:1")
    with pytest.raises(ContainerError, match=r"a library is not to be had .* llvmlite==") as raised:
        build_image(engine, other, Order(wheels=tmp_path, offline=True))
    assert "put its wheel into the folder" in str(raised.value)
    assert engine.client.api.containers(all=True) == []
    assert engine.client.images.list(filters={"label": "mansard.stage=build"}) == []


def test_the_command_shows_it_and_does_not_build_it_again(
    daemon: Daemon, built_image: Here, tmp_path: Path
) -> None:
    options = ["--container-engine", daemon.address, "--images", str(built_image.table), "--json"]

    def image(*arguments: str) -> Any:
        command = [sys.executable, "-m", "mansard.cli", "image", *arguments, *options]
        told = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)
        return json.loads(told.stdout)

    built = image("build", "here", "--offline")
    assert (built["tag"], built["was_there"]) == (built_image.built.tag, True)
    listed = image("list")
    (row,) = [each for each in listed["built"] if each["tag"] == built_image.built.tag]
    assert row["digest"] == built_image.built.digest[:19]
    assert listed["known"][0]["image"] == "here"
