"""``mansard score`` where a part of a network is unknown, or its sizes depend on data."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.pages.report.answer_pages import write_score_page
from mansard.cli.counting.score import score_rows
from mansard.estimator import score
from tests.cli.test_cli_score import scored
from tests.estimator.detectors import detector
from tests.estimator.test_stated_shapes import CONV_MACS, MATMUL_MACS, custom


@pytest.fixture
def ssd(tmp_path: Path) -> Path:
    path = tmp_path / "ssd.onnx"
    path.write_bytes(detector(4))
    return path


@pytest.fixture
def unknown(tmp_path: Path) -> Path:
    path = tmp_path / "custom.onnx"
    path.write_bytes(custom())
    return path


def test_a_subtotal_is_printed_as_one(unknown: Path) -> None:
    shape = ("--shape", "h=1x16:float32")
    done = scored(unknown, "--batch", 1, "--allow-unknown", *shape)
    assert done.returncode == 0, done.stderr
    assert "1 of 3 layers are unknown, from Pooled 'h' on" in done.stderr
    assert done.stdout.count("at least") >= 6
    part = score(custom(), batch=1, shapes={"h": (1, 16)}, allow_unknown=True)
    _, (row,) = score_rows([part])
    # GMAC: 15552 of the convolution and 80 of the product behind the unknown operator
    assert row[4] == "3"  # functional layers: whether one moves or works is known without its size
    assert row[5] == "at least 1.563e-05"
    assert row[10:12] == ("unknown", "unknown")  # no intensities
    # GMAC, GFLOP, parameters, traffic, fused traffic and weights
    assert all(cell.startswith("at least ") for cell in (*row[5:10], row[12]))
    assert row[-1] == "unknown"  # no sum of the memory
    found = scored_whole(unknown, "--batch", 1, "--allow-unknown", *shape)["totals"]
    assert found["macs"] is None
    assert found["at_least"]["macs"] == CONV_MACS + MATMUL_MACS


def scored_whole(*words: object) -> dict[str, Any]:
    (found,) = json.loads(scored(*words, "--json").stdout)["scores"]
    return dict(found)


def test_the_unknown_operator_is_told_first_in_one_line(unknown: Path) -> None:
    done = scored(unknown)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "my::Pooled (node 'h')" in done.stderr
    assert "--shape 'h=AxB'" in done.stderr
    assert "--batch" not in done.stderr


def test_a_bound_is_printed_as_one(ssd: Path) -> None:
    done = scored(ssd, "--upper-bounds")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("at most") >= 7
    _, (row,) = score_rows([score(detector(4), upper=True)])
    assert all(cell.startswith("at most ") for cell in (*row[5:10], *row[12:]))
    assert row[10:12] == ("unknown", "unknown")
    found = scored_whole(ssd, "--upper-bounds")
    assert found["totals"]["is_upper_bound"] is True
    assert found["score"]["bounds"]["NonZero_10[1]"] == 50
    rows = csv.DictReader(io.StringIO(scored(ssd, "--upper-bounds", "--format", "csv").stdout))
    assert {json.loads(row["dimensions_json"])["at most NonZero_10[1]"] for row in rows} == {50}


def test_a_pattern_gives_exact_sums(ssd: Path) -> None:
    done = scored(ssd, "--dim", "*NonZero*=7", "--dim", "NonMax*=5")
    assert done.returncode == 0, done.stderr
    assert "at most" not in done.stdout
    done = scored(ssd, "--dim", "*NonZeros*=7")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "matches no dimension of the model" in done.stderr


def test_a_pattern_may_be_another_file_s(ssd: Path, unknown: Path) -> None:
    options = ("--dim", "NonZero*=7", "--dim", "NonMax*=5", "--allow-unknown", "--batch", 1)
    done = scored(ssd, unknown, *options, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    done = scored(ssd, unknown, *options, "--dim", "Nothing*=5", "--jobs", 1)
    assert done.returncode == 2
    assert "none of the models knows 'Nothing*'" in done.stderr


def test_the_page_says_at_least_and_at_most(tmp_path: Path) -> None:
    part = score(custom(), batch=1, allow_unknown=True)
    path = tmp_path / "scores.html"
    write_score_page([part, score(detector(4), upper=True)], path, None)
    page = path.read_text(encoding="utf-8")
    assert "at least 1.555e-05" in page  # GMAC of the convolution
    assert "6 sizes that depend on data are upper bounds" in page
    assert "at most " in page


@pytest.mark.parametrize("text", ["h=1x16:", "h=:float32x", "h=1x:int8"])
def test_shapes_that_are_none(unknown: Path, text: str) -> None:
    done = scored(unknown, "--batch", 1, "--allow-unknown", "--shape", text)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
