"""What is published: a source archive and a wheel of it, which a clean environment can use."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from mansard.core.extras import EXTRAS
from mansard.core.version import VERSION
from tests.inference.replayed_server import Replayed, replaying

pytest.importorskip("hatchling", reason="hatchling is in the extra dev")

ROOT = Path(__file__).resolve().parents[2]
_BUILD = (sys.executable, "-m", "hatchling", "build")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, unpacked."""
    folder = tmp_path_factory.mktemp("sources")
    subprocess.run([*_BUILD, "-t", "sdist", "-d", folder], cwd=ROOT, check=True)
    (archive,) = folder.glob("mansard-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sources: Path) -> Path:
    """The wheel that is built of the source archive, as by an index."""
    subprocess.run([*_BUILD, "-t", "wheel", "-d", sources / "dist"], cwd=sources, check=True)
    (built,) = (sources / "dist").glob("mansard-*-py3-none-any.whl")
    return built


def test_the_source_archive_holds_what_the_clone_does(sources: Path) -> None:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a clone")
    tracked = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    packed = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}
    packed = {name for name in packed if not name.startswith("dist/")}
    assert tracked - packed == set()
    assert {"LICENSE", "NOTICE", "README.md", "examples/README.md", "PKG-INFO"} <= packed


def test_the_wheel_holds_every_file_of_the_rooms_and_nothing_else(wheel: Path) -> None:
    rooms = {
        str(path.relative_to(source))
        for source in ROOT.glob("*/src")
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        metadata = opened.read(_info(names, "METADATA")).decode()
        programs = opened.read(_info(names, "entry_points.txt")).decode()
        notice = opened.read(_info(names, "licenses/NOTICE")).decode()
    assert {name for name in names if ".dist-info/" not in name} == rooms
    # Of each kind that is not code, one that a command reads.
    assert {
        "mansard/estimator/zoo/models/resnet50.onnx",
        "mansard/microbench/cuda/sources/mma.cuh",
        "mansard/analytics/pages/report/templates/licenses.txt",
        "mansard/containers/recipes/plain/Dockerfile",
    } <= names
    assert notice == (ROOT / "NOTICE").read_text("utf-8")
    assert _info(names, "licenses/LICENSE") in names
    assert "License-Expression: Apache-2.0" in metadata
    assert "mansard = mansard.cli.__main__:main" in programs


def test_every_room_tells_type_checkers_that_it_is_typed() -> None:
    rooms = {path.parent for path in ROOT.glob("*/src/mansard/*/__init__.py")}
    assert len(rooms) == 13
    assert [room.name for room in rooms if not (room / "py.typed").exists()] == []


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel; what it depends on comes from the one of the tests."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    subprocess.run((*pip, "install", "--quiet", "--no-deps", wheel), check=True)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    others = {str(Path(str(each.__file__)).parents[1]) for each in (np, pytest)}
    # A line of a .pth is a folder; the .pth files in that folder, one of them this clone's, do
    # not count.
    (packages / "others.pth").write_text("\n".join(others), "utf-8")
    return folder


def test_the_installed_wheel_scores_and_shows_the_demo(installed: Path, tmp_path: Path) -> None:
    def mansard(*words: str) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [installed / "bin/mansard", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    assert mansard("--version") == f"mansard {VERSION}\n"
    mansard("models", "write", ".", "resnet50")
    assert "resnet50" in mansard("score", "resnet50.onnx", "--batch", "1")
    mansard("demo", "simulated", "--mode", "MAXN")  # the whole demo takes a core 16 s
    (page,) = (tmp_path / "demo").rglob("*.html")
    assert "Orin" in page.read_text("utf-8")


@pytest.fixture(scope="module")
def core_alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it depends on without extras: links to ours."""
    folder = tmp_path_factory.mktemp("core")
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    subprocess.run((*pip, "install", "--quiet", "--no-deps", wheel), check=True)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    for name in core_packages(wheel):
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in {"..", "__pycache__"} and not (packages / top).is_symlink():
                (packages / top).symlink_to(str(distribution(name).locate_file(top)))
    return folder


def core_packages(wheel: Path) -> set[str]:
    """What pip installs beside the wheel where no extra is asked for."""
    with zipfile.ZipFile(wheel) as opened:
        text = opened.read(_info(set(opened.namelist()), "METADATA")).decode()
    ahead = [Requirement(line) for line in Parser().parsestr(text).get_all("Requires-Dist", [])]
    names: set[str] = set()
    while ahead:
        requirement = ahead.pop()
        marker = requirement.marker
        if (marker is None or marker.evaluate({"extra": ""})) and requirement.name not in names:
            names.add(requirement.name)
            ahead += map(Requirement, distribution(requirement.name).requires or ())
    return names


def run_core(core_alone: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program = (str(core_alone / "bin/mansard"), *words)
    return subprocess.run(
        program, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def test_the_core_has_no_library_of_an_extra(core_alone: Path, wheel: Path) -> None:
    assert {"llvmlite", "msgspec", "numba", "numpy", "typer"} <= core_packages(wheel)
    code = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    words = (str(core_alone / "bin/python"), "-c", code, *EXTRAS)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("--help",), "recommend"),
        (("doctor",), "containers"),
        (("score", "resnet50", "--batch", "1"), "weights (MB)"),
        (("models", "list"), "resnet50"),
        (("models", "show", "resnet50"), "weights (MB)"),
        (("models", "write", ".", "resnet50"), "resnet50.onnx"),
        (("board", "modes"), "1c"),
        (("board", "watch", "--once"), "CPU"),
        (("measure", "--profile", "brief", "--repeat", "2", "--", "true"), ""),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else "",
)
def test_the_core_does(
    core_alone: Path, tmp_path: Path, words: tuple[str, ...], shown: str
) -> None:
    done = run_core(core_alone, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_the_core_measures_a_server(core_alone: Path, tmp_path: Path) -> None:
    with replaying(Replayed()) as address:
        words = ("measure", "--server", address, "--prompt", "8", "--generate", "4")
        done = run_core(core_alone, tmp_path, *words, "--repeat", "2", "--profile", "brief")
    assert done.returncode == 0, done.stderr
    assert "Language model servers" in done.stdout


def test_the_core_benches_and_says_how_to_get_the_report(
    core_alone: Path, wheel: Path, tmp_path: Path
) -> None:
    words = ("bench", "--profile", "brief", "--mode", "1c", "--no-networks", "--local")
    done = run_core(core_alone, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "GFLOP/s" in done.stdout
    assert f"pip install '{wheel}[report]', then mansard report --runs runs" in done.stdout
    refused = run_core(core_alone, tmp_path, *words, "--json")
    assert refused.returncode == 1
    assert "this needs" in refused.stderr


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        (("recommend", "resnet50"), "polars", "report"),
        (("report",), "polars", "report"),
        (("compare", "a", "b"), "polars", "report"),
        (("multi", "contention"), "altair", "report"),
        (("data", "schema", "score"), "polars", "report"),
        (("offload", "tune", "s.npz"), "polars", "report"),
        (("offload", "serve", "large.onnx"), "onnx", "networks"),
        (("data", "image", "list"), "docker", "boards"),
        (("models", "write", ".", "zoo_operators1"), "onnx", "networks"),
        (("measure", "resnet18", "--local"), "onnxruntime", "onnxruntime"),
    ],
)
def test_a_missing_extra_is_one_line_with_its_command(
    core_alone: Path,
    wheel: Path,
    tmp_path: Path,
    words: tuple[str, ...],
    library: str,
    extra: str,
) -> None:
    done = run_core(core_alone, tmp_path, *words)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, "")
    assert last.startswith("mansard: ")
    assert library in last
    assert last.endswith(f"pip install '{wheel}[{extra}]'")


def test_the_image_of_the_host_copies_what_a_clone_and_a_build_have() -> None:
    lines = (ROOT / "containers/host/Dockerfile").read_text("utf-8").splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert copied == ["requirements/base.txt", "dist/"]  # the wheel is built into dist/
    assert (ROOT / "requirements/base.txt").exists()
    assert lines[-1] == 'ENTRYPOINT ["python3", "-m", "mansard.cli"]'
    # A user without rights, where the command names no other.
    assert any(line.startswith("USER 65534") for line in lines)


def _info(names: set[str], name: str) -> str:
    (found,) = (each for each in names if each.endswith(f".dist-info/{name}"))
    return found
