"""The recipes keep their rules, and the context holds what runs on a board and nothing else."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from mansard.containers.images.building import RECIPES, libraries_step, rooms_step, write_tar
from mansard.containers.images.table import read_table
from mansard.core.version import VERSION

ROOT = Path(__file__).resolve().parents[2]
RECIPE_NAMES = ("plain", "ubuntu", "standalone", "rooms")
CPU = read_table().image("cpu")
LIBRARIES = libraries_step(CPU)
ROOMS = rooms_step(CPU, LIBRARIES, "abc")


def instructions(name: str) -> list[str]:
    """The instructions of a Dockerfile, one string each, without comments."""
    lines = (RECIPES / name / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    return [each for each in text.replace("\\\n", " ").splitlines() if each.strip()]


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_a_recipe_needs_the_classic_builder_alone(name: str) -> None:
    known = {"FROM", "ARG", "ENV", "LABEL", "COPY", "ADD", "RUN", "USER", "WORKDIR", "CMD"}
    for instruction in instructions(name):
        word = instruction.split()[0]
        assert word in known | {"ENTRYPOINT"}
        assert "<<" not in instruction  # heredocs
        assert not re.search(r"\b(RUN|COPY|ADD|FROM) --(mount|network|security|link)", instruction)
        assert "--chmod" not in instruction
    assert "# syntax" not in (RECIPES / name / "Dockerfile").read_text()


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_a_recipe_fetches_nothing_by_itself_but_packages(name: str) -> None:
    for instruction in instructions(name):
        assert "://" not in instruction
        assert not re.search(r"\b(curl|wget|git clone)\b", instruction)


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_every_run_of_apt_leaves_no_cache(name: str) -> None:
    for instruction in instructions(name):
        if "apt-get install" in instruction:
            assert "--no-install-recommends" in instruction
            assert "rm -rf /var/lib/apt/lists/*" in instruction
            assert instruction.index("apt-get update") < instruction.index("apt-get install")


@pytest.mark.parametrize("name", ["plain", "ubuntu", "standalone"])
def test_wheels_and_pip_stay_in_a_stage_of_their_own(name: str) -> None:
    lines = instructions(name)
    last = max(i for i, line in enumerate(lines) if line.startswith("FROM "))
    for line in lines[last + 1 :]:
        assert not line.startswith(("RUN", "ADD"))
        assert not line.startswith("COPY") or line.startswith("COPY --from=build /opt/")
    assert any('mansard.stage="build"' in line for line in lines[:last])


def test_the_image_writes_nothing_outside_tmp_and_runs_as_nobody() -> None:
    lines = instructions("rooms")
    (environment,) = [line for line in lines if line.startswith("ENV ")]
    settings = dict(pair.split("=", 1) for pair in environment.split()[1:])
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH"):
        assert settings[name].startswith("/tmp")  # noqa: S108 - of the container
    assert settings["PYTHONDONTWRITEBYTECODE"] == "1"
    assert [line for line in lines if line.startswith("USER")][-1] == "USER 65534:65534"
    labels = " ".join(line for line in lines if line.startswith("LABEL"))
    for label in ("version", "revision", "base.name", "title", "licenses"):
        assert f"org.opencontainers.image.{label}=" in labels


def test_every_argument_is_given_and_every_file_is_there() -> None:
    for step, recipe in ((LIBRARIES, CPU.recipe), (ROOMS, "rooms")):
        lines = instructions(recipe)
        asked = {line.split()[1] for line in lines if line.startswith("ARG ")}
        assert asked == set(step.arguments)
        for line in lines:
            if line.startswith("COPY ") and "--from" not in line:
                for source in line.split()[1:-1]:
                    assert source == "wheels" or any(path.startswith(source) for path in step.files)


def test_the_context_holds_the_on_device_rooms_whole() -> None:
    there = {path for path in ROOMS.files if path.startswith("rooms/")}
    rooms = {"core", "device", "measuring", "microbench", "inference"}
    for room in rooms:
        source = ROOT / room / "src/mansard" / room
        wanted = {
            f"rooms/mansard/{room}/{path.relative_to(source).as_posix()}"
            for path in source.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert wanted
        assert wanted <= there
    assert {path.split("/")[2] for path in there} == rooms
    assert not [path for path in there if path.endswith(".pyc")]


def names_in(files: Mapping[str, bytes], large: Mapping[str, Path]) -> list[tarfile.TarInfo]:
    data = io.BytesIO()
    write_tar(data, files, large)
    data.seek(0)
    with tarfile.open(fileobj=data) as archive:
        return archive.getmembers()


def test_the_tar_is_the_same_every_time_and_everyone_may_read_it(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    wheel.write_bytes(b"wheel")
    wheel.chmod(0o600)
    entries = names_in(LIBRARIES.files, {"wheels/a.whl": wheel})
    assert [entry.name for entry in entries] == [
        "wheels",
        "Dockerfile",
        "install.py",
        "libraries.txt",
        "wheels/a.whl",
    ]
    for entry in entries:
        assert (entry.uid, entry.gid, entry.mtime) == (0, 0, 0)
        assert entry.mode == (0o755 if entry.isdir() else 0o644)


def test_the_tag_changes_with_what_the_image_is_made_of_and_with_nothing_else() -> None:
    assert libraries_step(CPU).tag == LIBRARIES.tag
    assert ROOMS.tag.startswith(f"mansard/cpu:{VERSION}-")
    assert rooms_step(CPU, LIBRARIES, "another commit").tag == ROOMS.tag
    other = libraries_step(msgspec.structs.replace(CPU, base="docker.io/library/python:3.13-slim"))
    assert other.tag != LIBRARIES.tag
    assert rooms_step(CPU, other, "abc").tag != ROOMS.tag
    # Where a fact comes from does not make another image.
    assert libraries_step(msgspec.structs.replace(CPU, source="elsewhere")).tag == LIBRARIES.tag


@pytest.mark.parametrize("image", read_table().images, ids=lambda image: image.name)
def test_every_tag_is_one_that_docker_takes(image: object) -> None:
    entry = read_table().image(getattr(image, "name", ""))
    step = libraries_step(entry)
    for tag in (step.tag, rooms_step(entry, step, "x").tag):
        assert re.fullmatch(r"mansard/[a-z0-9]+(?:[.-][a-z0-9]+)*:[A-Za-z0-9_.-]{1,128}", tag)
