"""Which command adds a missing library, by where Mansard was installed from."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core import extras
from mansard.core.errors import MissingLibrary
from mansard.core.extras import EXTRAS, missing_library
from mansard.core.onnx_runtime import install_remedy
from mansard.core.storage.documents import read_toml

ROOT = Path(__file__).resolve().parents[2]


def test_every_library_is_in_the_extra_that_is_named() -> None:
    project = read_toml(ROOT / "pyproject.toml", "a project")["project"]
    names = {"PIL": "pillow", "vl_convert": "vl-convert-python"}
    for module, extra in EXTRAS.items():
        listed = [line.partition(">")[0] for line in project["optional-dependencies"][extra]]
        assert names.get(module, module) in listed
        assert not any(
            line.startswith(names.get(module, module)) for line in project["dependencies"]
        )


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "mansard[report]"),
        ({"url": "https://host/mansard.whl", "archive_info": {}}, "mansard[report]"),
        ({"url": "file:///no/such/place", "dir_info": {}}, "mansard[report]"),
        (
            {"url": "https://host/m", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "mansard[report] @ git+https://host/m",
        ),
    ],
)
def test_the_command_without_a_clone(origin: dict[str, object], command: str) -> None:
    assert extras._requirement("report", origin) == f"'{command}'"


def test_the_command_from_a_clone_quotes_its_path(tmp_path: Path) -> None:
    clone = tmp_path / "it's a clone"
    clone.mkdir()
    origin = {"url": clone.as_uri(), "dir_info": {}}
    quoted = str(clone).replace("'", "'\"'\"'")
    assert extras._requirement("report", origin) == f"'{quoted}[report]'"
    origin["dir_info"] = {"editable": True}
    assert extras._requirement("report", origin) == f"-e '{quoted}[report]'"


def test_imports_of_other_modules_stay_what_they_are() -> None:
    assert missing_library(ModuleNotFoundError("broken", name="mansard.core.gone")) is None
    missing = missing_library(ModuleNotFoundError("no", name="vl_convert.part"))
    assert isinstance(missing, MissingLibrary)
    assert str(missing).startswith("this needs vl_convert, which is not installed; pip install ")
    assert missing.exit_code == 1


def test_a_jetson_gets_the_wheel_of_its_own_index() -> None:
    remedy = install_remedy("jetson")
    assert remedy.startswith("install onnxruntime-gpu from NVIDIA's index for Jetsons")
    assert "[networks]'" in remedy
    assert install_remedy("cpu").endswith("[onnxruntime]'")
    assert "onnxruntime-gpu with CUDA" in install_remedy("gpu", has_gpu=True)
