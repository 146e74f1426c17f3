"""Answers of hierarchical inference on pages: one of its own, and a section of the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.analytics.factory import write_two_modes
from tests.analytics.hierarchical_samples import made_up, write_npz
from tests.cli.decide_runs import answer, published_runs

COSTS = (
    *("--offload-latency", "40ms±2ms", "--offload-energy", "60mJ±5%", "--min-accuracy", "0.85"),
    *("--local", "seen", "--precision", "fp16"),
)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_npz(tmp_path_factory.mktemp("samples") / "samples.npz", made_up(2000))


def test_a_page_of_its_own(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, page = published_runs(tmp_path / "runs"), tmp_path / "hi.html"
    code, out, err = answer(
        capsys, "offload", "tune", samples, *COSTS, "--runs", runs, "--html", page
    )
    assert code == 0, err
    text = page.read_text("utf-8")
    assert "<title>Hierarchical inference: samples</title>" in text
    assert 'id="frontier-0-spec"' in text
    assert "Rules, modes and baselines on 1,000 samples (held out)" in text
    # Nine modes, never, always and random: the limit of each stands in the one table.
    assert len(re.findall("<td[^>]*>accuracy (?:kept|unknown|broken)<", text)) >= 12
    assert "(published)" in text  # what the local run costs is from the table
    sentence = next(line for line in out.splitlines() if line.startswith("Offload where"))
    assert sentence.split(":")[0] in text


def test_a_kept_answer_is_a_section_of_the_report(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    assert answer(capsys, "report", "--runs", runs)[0] == 0
    before = (runs / "report.html").read_text("utf-8")
    assert 'id="offloads"' not in before
    assert "contention" not in before.lower()  # nothing of it was measured
    given = (
        *("--local-latency", "1ms±0", "--offload-latency", "9ms±0"),
        *("--beta", "0.3", "--replay", "200"),
    )
    code, _, err = answer(
        capsys, "offload", "tune", samples, *given, "--runs", runs, "--keep", "first-try"
    )
    assert code == 0, err
    code, _, err = answer(capsys, "report", "--runs", runs)
    assert code == 0
    assert "hierarchical" not in err  # the folder is known
    text = (runs / "report.html").read_text("utf-8")
    assert 'id="offloads"' in text
    assert "<h3>first-try</h3>" in text
    assert 'id="regret-0-spec"' in text
    assert "\\xa0" not in text
    assert 'id="frontier-0-spec"' in text


def test_a_name_that_no_file_can_bear_and_a_broken_answer(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("../out", "a/b", ".hidden"):
        code, _, err = answer(
            capsys, "offload", "tune", samples, "--runs", tmp_path, "--keep", name
        )
        assert (code, len(err.splitlines())) == (2, 1)
        assert "cannot name an answer" in err
    assert list(tmp_path.iterdir()) == []
    runs = write_two_modes(tmp_path / "runs")
    (runs / "hierarchical").mkdir()
    (runs / "hierarchical/cut.json").write_text('{"schema": "hier', encoding="utf-8")
    code, _, err = answer(capsys, "report", "--runs", runs)
    assert code == 1
    assert "cut.json: cannot read this document" in err.splitlines()[-1]
    assert "Traceback" not in err
