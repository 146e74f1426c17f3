"""``mansard data image`` as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.simulator import create_board


def mansard(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(cwd / "settings")}
    environment.pop("DOCKER_HOST", None)
    return subprocess.run(
        [sys.executable, "-m", "mansard.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment,
    )


def one_line(result: subprocess.CompletedProcess[str], code: int) -> str:
    assert result.returncode == code, result.stderr
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("mansard: ")
    assert "Traceback" not in result.stderr
    return lines[-1]


def test_fit_says_which_image_and_why(tmp_path: Path) -> None:
    board = create_board("agx-orin", tmp_path)
    result = mansard("image", "fit", "--board", str(board), "--json", cwd=tmp_path)
    found = json.loads(result.stdout)
    assert found["image"]["name"] == "cpu"
    assert "simulated" in found["why"]
    told = mansard("image", "fit", "--board", str(board), cwd=tmp_path).stdout
    assert told.startswith("cpu: the board is simulated")
    assert "(about 104 MB)" in told


def test_an_image_for_another_machine_is_one_line(tmp_path: Path) -> None:
    line = one_line(mansard("image", "fit", "jetpack-5", cwd=tmp_path), 1)
    assert "jetpack-5 is not for this machine" in line


def test_a_name_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    line = one_line(mansard("image", "fit", "no\x1b[2Jne", cwd=tmp_path), 2)
    assert "there is no image" in line
    assert "\x1b" not in line


def test_images_of_the_present_folder_count_only_when_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "images.toml").write_text('[images.cpu]\nbase = "mine:1"\n')
    unasked = mansard("image", "fit", "cpu", cwd=tmp_path)
    assert "base docker.io/library/python" in unasked.stdout
    assert unasked.stderr == ""
    asked = mansard("image", "fit", "cpu", "--images", "images.toml", cwd=tmp_path)
    assert "base mine:1" in asked.stdout
    assert asked.stderr == ""
    other = tmp_path / "other.toml"
    other.write_text("junk")
    line = one_line(mansard("image", "fit", "--images", str(other), cwd=tmp_path), 1)
    assert "other.toml: is not TOML" in line


def test_boards_of_the_present_folder_count_only_when_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text("junk")
    command = ("bench", "resnet18", "--host", "orin,a;b", "--dry-run")
    assert "'a;b' does not name a board" in one_line(mansard(*command, cwd=tmp_path), 2)
    asked = mansard(*command, "--hosts-file", "hosts.toml", cwd=tmp_path)
    assert "hosts.toml: is not TOML" in one_line(asked, 1)


def test_libraries_are_lines_for_pip(tmp_path: Path) -> None:
    lines = mansard("image", "libraries", "jetpack-5", cwd=tmp_path).stdout.splitlines()
    assert "cupy-cuda11x==13.6.0" in lines
    assert "numpy==2.2.6" in lines  # the last one for Python 3.10


@pytest.mark.parametrize(
    "arguments", [["list"], ["build"], ["save", "image.tar.gz"], ["load", "image.tar.gz"]]
)
def test_without_an_engine_it_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    nowhere = f"unix://{tmp_path}/none.sock"
    result = mansard("image", *arguments, "--container-engine", nowhere, cwd=tmp_path)
    assert "there is no container engine" in one_line(result, 1)
    assert [path.name for path in tmp_path.iterdir()] == []


def test_help_names_the_commands(tmp_path: Path) -> None:
    told = mansard("image", "--help", cwd=tmp_path).stdout
    for word in ("fit", "list", "build", "save", "load", "libraries"):
        assert word in told
