"""The probe of an engine, as one line of JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import UsageError
from mansard.inference.__main__ import main
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import EngineProbe

pytest.importorskip("onnxruntime")


def test_a_probe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--probe", "ort"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = msgspec.json.decode(line, type=EngineProbe)
    assert found.providers is not None
    assert "cpu" in found.providers
    assert found.versions["onnxruntime"] == found.version
    assert found.absent.keys() == {"cuda", "tensorrt"} - set(found.providers)


def test_an_unknown_engine_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="unknown engine 'abacus'; use ort"):
        find_engine("abacus")


def test_the_runtime_writes_no_files_and_sends_no_reports(tmp_path: Path) -> None:
    program = "from mansard.inference.engines.ort import ORT; assert ORT.probe().providers"
    inherited = {name: text for name, text in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path))
    subprocess.run([sys.executable, "-c", program], env=inherited | folders, check=True)
    assert list(tmp_path.iterdir()) == []
