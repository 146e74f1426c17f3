"""Folders of runs that decisions are made from, and the command line inside this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.cli.__main__ import run
from tests.cli.json_outputs import check_output

# GPU and memory clocks in MHz; the time of a lawful network is 2 s · MHz / GPU + 4 s · MHz / EMC.
CLOCKS = [(gpu, emc) for gpu in (400, 800, 1200) for emc in (800, 1600, 3200)]


def latency_ms(gpu: int, emc: int) -> float:
    return 2000 / gpu + 4000 / emc


def power_w(gpu: int, emc: int) -> float:
    """3 W at rest, and more with both clocks."""
    return 3 + 10 * (gpu / 1200) ** 3 + 2 * emc / 3200


def published_runs(folder: Path) -> Path:
    """A folder with one imported table: the network "seen" in every mode of a made-up Jetson."""
    folder.mkdir()
    lines = ["mode,gpu_mhz,emc_mhz,network,precision,batch,time_ms,power_w"]
    for gpu, emc in CLOCKS:
        figures = f"{latency_ms(gpu, emc):.6f},{power_w(gpu, emc):.6f}"
        lines.append(f"gpu{gpu}-emc{emc},{gpu},{emc},seen,fp16,1,{figures}")
    table = folder / "table.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    arguments = ["import", str(table), "--citation", "made up", "--device", "Jetson Madeup"]
    assert run([*arguments, "--runs", str(folder)]) == 0
    return folder


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``mansard`` with these arguments."""
    capsys.readouterr()
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    check_output(captured.out)
    return code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *arguments: object, expected_code: int = 0) -> Any:
    """What ``mansard … --json`` prints; it exits with ``expected_code``."""
    code, out, err = answer(capsys, *arguments, "--json")
    assert code == expected_code, err
    return json.loads(out)
