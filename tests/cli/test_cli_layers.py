"""``mansard models layers`` on the terminal, as JSON and as a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.in_process import mansard
from tests.documents.given import make_given

ROOFS = ("--peak", "fp32=5TFLOP/s", "--peak", "fp16:tensor=20TFLOP/s", "--bandwidth", "100GB/s")


@pytest.fixture
def engine(tmp_path: Path) -> tuple[str, ...]:
    """The words of a profile and its graph."""
    for name in ("profile.json", "graph.json"):
        make_given(name, tmp_path / name)
    return ("--profile", str(tmp_path / "profile.json"), "--graph", str(tmp_path / "graph.json"))


def test_the_table_fits_and_says_what_was_joined(engine: tuple[str, ...]) -> None:
    done = mansard("layers", "alexnet", *engine, *ROOFS)
    assert done.returncode == 0
    # The engine of the tests has two of the network's layers.
    assert "15 nodes with 90.12% of the work are in no layer" in done.stderr
    assert "Layers of alexnet, batch 1, fp16 by gap" in done.stdout
    assert "Conv_0 + Relu_1" in done.stdout
    assert (
        "92 % of the time is joined to nodes of the network, 8 % is spent in reformats."
        in done.stdout
    )
    assert "the most that can be gained" in done.stdout


def test_wide_terminals_show_work_and_bytes(
    engine: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    words = mansard("layers", "alexnet", *engine, *ROOFS).stdout
    assert "MFLOP" in words
    assert max(map(len, words.splitlines())) <= 120


def test_json_has_every_field(engine: tuple[str, ...]) -> None:
    done = mansard("layers", "alexnet", *engine, "--json")
    (network,) = json.loads(done.stdout)["networks"]
    assert network["network"] == "alexnet"
    assert network["roofs_source"] is None
    assert {row["joined_by"] for row in network["layers"]} == {"shapes", "none"}


def test_a_page_loads_nothing(engine: tuple[str, ...], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = mansard("layers", "alexnet", *engine, *ROOFS, "--html", page)
    assert f"page: {page}" in done.stdout
    text = page.read_text("utf-8")
    assert "Layers under the roofs of DRAM" in text
    assert "default-src &#39;none&#39;" in text
    again = mansard("layers", "alexnet", *engine, *ROOFS, "--html", page)
    assert again.returncode == 0  # our own page is replaced


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--peak", "fp32"), 2, "--peak 'fp32' is not a precision with a rate"),
        (("--peak", "fp32:dla=1TFLOP/s"), 2, "is not a precision with a rate"),
        (("--peak", "fp3=1TFLOP/s"), 2, "unknown precision 'fp3'"),
        (("--peak", "fp32=1"), 2, "--peak"),
        (("--bandwidth", "fast"), 2, "--bandwidth"),
        (("--launch", "-1us"), 2, "--launch"),
        (("--precision", "fp99"), 2, "unknown precision 'fp99'"),
        (("--device", "no board"), 2, "is not a known board"),
        (("--runs", "nowhere"), 1, "nowhere: there is no such folder"),
    ],
)
def test_bad_words_are_one_line(
    engine: tuple[str, ...], words: tuple[str, ...], code: int, message: str
) -> None:
    done = mansard("layers", "alexnet", *engine, *words)
    assert done.returncode == code
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert done.stdout == ""
