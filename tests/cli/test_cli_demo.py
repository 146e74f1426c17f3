"""``mansard demo``: published roofs, and Pagoda reproduced; nothing is measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reproductions.pagoda.__main__ import main as pagoda
from tests.cli.in_process import mansard


def test_the_roofs_of_real_boards(tmp_path: Path) -> None:
    result = mansard("demo", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    said = result.stderr
    assert "The figures of three boards are published; those of the fourth are simulated" in said
    assert "4 modes to simulate\n" in said
    assert "Simulating MAXN: 56 of 56" in said
    assert "Measuring" not in said
    # 13.88 TFLOP/s in fp16 and 189.5 GB/s: branes-ai's AGX Orin in MAXN.
    assert "13.88 TFLOP/s" in result.stdout
    assert "189.5 GB/s" in result.stdout
    # They ran on the AGX Orin: 15.366 ms for resnet50.
    head, rows = result.stdout.split("\n\n")[0].split("─\n")
    assert head.startswith("Networks that ran on Jetson AGX Orin 64GB (published): batch 1, fp32")
    assert re.search(r"^resnet50 +15\.37 ± 0\.53 +65\.1 +414 +26\.9$", rows, re.MULTILINE)
    page = (tmp_path / "demo/report.html").read_text()
    assert re.search(r'<p class="when">published; simulated on 20\d\d-\d\d-\d\d</p>', page)
    assert ">mobilenet_<wbr>v3_<wbr>large</th>" in page
    # The board whose recorded networks really ran comes first, before the simulated one.
    title = "Rooflines of Jetson AGX Orin 64GB (published) and 3 more (partly simulated)"
    assert f"<title>{title}</title>" in page
    first = page.split("<caption>")[1]
    assert first.startswith("Networks that ran on Jetson AGX Orin 64GB (published)")
    for words in ("Jetson Orin NX 16GB (published)", "github.com/branes-ai/graphs", "(MIT)"):
        assert words in page
    # 16 SMs x 2048 FLOP a cycle x 1.3005 GHz = 42.61 TFLOP/s on tensor cores, less the launches.
    assert "Jetson AGX Orin Developer Kit GPU (simulated)" in page
    assert ">measured</span>" not in page.split("<summary>Labels</summary>")[0]
    assert len(page) < 2_000_000


def test_pagoda_beside_our_estimates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pagoda(["-o", str(tmp_path / "p.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["counts"]), len(found["points"])) == (55, 25)
    assert found["points"][5]["measured_s"] == 0.015366144  # resnet50 at batch 1
    assert (tmp_path / "p.html").read_text().count("<section id=") == 5


def test_the_tables_of_pagoda_begin_with_network_and_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pagoda(["-o", str(tmp_path / "p.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if re.match(r"\W*Network +Batch", line)]
    assert len(heads) == 2, lines  # of times and of power


def test_the_simulated_board_is_a_demo_of_its_own(tmp_path: Path) -> None:
    result = mansard("demo", "simulated", "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert "--board" in result.stdout
    assert "a simulated board" in mansard("demo", "--help", cwd=tmp_path).stdout.casefold()
