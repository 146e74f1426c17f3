"""``mansard compare --check``: exit codes, baselines, labels, and tables for merge requests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mansard.cli.deciding.markdown import escaped
from tests.analytics.factory import measurement, program, write_networks, write_programs
from tests.analytics.generation_rows import (
    generation,
    generation_request,
    generation_round,
    write_generations,
)
from tests.analytics.test_compare_everything import labelled, layer, nine
from tests.cli.decide_runs import answer


def network(runs: Path, factor: float) -> None:
    layers = (layer(0, "conv", [0, 1], 0.01 * factor), layer(1, "gemm", [2], 0.01))
    times = nine(0.02 * factor)
    write_networks(runs, [measurement("n", times, layers=layers, profiled_s=tuple(times))])


def one_program(runs: Path, factor: float) -> None:
    write_programs(runs, [program("p", nine(factor), metric=2.0)])


def server(runs: Path, factor: float) -> None:
    rounds = [
        generation_round([generation_request(0.0, [s * factor * (1 + jitter) for s in (0.1, 0.2)])])
        for jitter in (0.0, 0.002, -0.002, 0.001, -0.001, 0.002)
    ]
    write_generations(runs, [generation("s", rounds)])


Write = Callable[[Path, float], None]
EVERYTHING = [network, one_program, server]


@pytest.fixture
def folders(tmp_path: Path) -> Callable[[Write, float], tuple[Path, Path]]:
    def write(kind: Write, factor: float) -> tuple[Path, Path]:
        kind(tmp_path / "a", 1.0)
        kind(tmp_path / "b", factor)
        return tmp_path / "a", tmp_path / "b"

    return write


@pytest.mark.parametrize("kind", EVERYTHING)
@pytest.mark.parametrize(
    ("factor", "code", "says"),
    [(1.0, 0, "within: all"), (1.3, 3, "worse: "), (0.5, 0, "within: all")],
)
def test_the_exit_code_says_whether_more_changed_than_is_allowed(
    folders: Callable[[Write, float], tuple[Path, Path]],
    capsys: pytest.CaptureFixture[str],
    kind: Write,
    factor: float,
    code: int,
    says: str,
) -> None:
    first, second = folders(kind, factor)
    found, out, _ = answer(capsys, "compare", first, second, "--check")
    assert (found, says in out) == (code, True)
    # Without a check it is 0 whatever changed.
    assert answer(capsys, "compare", first, second)[0] == 0


def test_a_limit_at_the_change_is_not_known(
    folders: Callable[[Write, float], tuple[Path, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = folders(one_program, 1.0501)
    code, out, _ = answer(capsys, "compare", first, second, "--check", "p50 +5%")
    assert code == 4
    assert "too near the limit for its scatter" in out
    assert "(exit code 4)" in out
    assert answer(capsys, "compare", first, second, "--check", "p50 +3%")[0] == 3
    assert answer(capsys, "compare", first, second, "--check", "p50 +8%")[0] == 0


def test_what_a_side_lacks_is_not_known(
    folders: Callable[[Write, float], tuple[Path, Path]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = folders(one_program, 1.0)
    network(tmp_path / "b", 1.0)
    code, out, _ = answer(capsys, "compare", first, second, "--check", "p50 +5%")
    assert code == 4
    assert "only the second side has it" in out
    code, out, _ = answer(capsys, "compare", first, first, "--check", "energy +3%")
    assert code == 4
    assert "not asked for" in out  # the reason of the row


def test_the_document_has_all_checks(
    folders: Callable[[Write, float], tuple[Path, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = folders(one_program, 1.2)
    code, out, _ = answer(capsys, "compare", first, second, "--check", "p50 +5%", "--json")
    found = json.loads(out)
    assert (code, found["verdict"]) == (3, "worse")
    (check,) = found["checks"]
    assert (check["quantity"], check["ratio_limit_high"]) == ("llm: time", pytest.approx(1.05))
    assert check["ratio"] == pytest.approx(1.2)


def test_layers_that_changed_are_listed_and_checked(
    folders: Callable[[Write, float], tuple[Path, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = folders(network, 1.3)
    _, out, _ = answer(capsys, "compare", first, second, "--layers")
    assert re.search(r"layer conv .*1\.300", out)
    assert "gemm" not in out  # it did not change
    assert "layer conv" not in answer(capsys, "compare", first, second)[1]
    code, out, _ = answer(capsys, "compare", first, second, "--check", "layer +10%")
    assert code == 3
    assert "layer conv" in out


def test_labels_and_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, base = tmp_path / "runs", tmp_path / "base.json"
    for name, label, factor in (("one", "v1", 1.0), ("two", "v2", 1.3)):
        labelled(runs, name, label, factor)
    both = ("compare", runs, runs, "--label", "v1", "--other-label", "v2", "--check", "p50 +5%")
    assert answer(capsys, *both)[0] == 3
    code, out, err = answer(capsys, "compare", runs, "--label", "v1", "--save", base)
    assert (code, out) == (0, "")
    assert f"baseline: {base}" in err.replace("\n", " ")
    gate = ("compare", base, runs, "--other-label")
    assert answer(capsys, *gate, "v1", "--check", "p50 +5%")[0] == 0
    assert answer(capsys, *gate, "v2", "--check", "p50 +5%")[0] == 3
    # What was gated becomes the next baseline.
    assert answer(capsys, *gate, "v2", "--save", base)[0] == 0
    assert answer(capsys, *gate, "v2", "--check", "p50 +5%")[0] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--check", "p50"], "only one side is given; give a second one, or --save FILE"),
        (["runs", "--check", "p51 +5%"], "--check 'p51 +5%' is not a check"),
        (["runs", "--label", "v9"], "no run has the label 'v9'; measure with --label"),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    one_program(tmp_path / "runs", 1.0)
    words: list[Any] = [tmp_path / "runs" if word == "runs" else word for word in options]
    code, out, err = answer(capsys, "compare", tmp_path / "runs", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": "baseline", "version": 1}', "\0"])
def test_a_file_that_is_not_a_baseline_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    one_program(tmp_path / "runs", 1.0)
    (tmp_path / "base.json").write_text(content)
    code, out, err = answer(
        capsys, "compare", tmp_path / "base.json", tmp_path / "runs", "--check", "p50 +5%"
    )
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "cannot read this document" in err


def test_nothing_is_left_of_a_baseline_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_program(tmp_path / "runs", 1.0)
    code, _, err = answer(
        capsys, "compare", tmp_path / "runs", "--save", tmp_path / "no" / "base.json"
    )
    assert (code, err.count("\n")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_names_of_a_baseline_are_shown_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one_program(tmp_path / "runs", 1.0)
    answer(capsys, "compare", tmp_path / "runs", "--save", tmp_path / "base.json")
    text = (tmp_path / "base.json").read_text()
    hostile = text.replace("llm", "l\\u001b[31m\\u202e\\nm").replace("6.1.0", "\\u001b]0;x\\u0007")
    (tmp_path / "base.json").write_text(hostile)
    for options in ((), ("--markdown",)):
        # ``answer`` refuses output with control characters.
        code, out, err = answer(
            capsys, "compare", tmp_path / "base.json", tmp_path / "runs", "--check", *options
        )
        assert code == 4
        assert not set("\x1b\x07\u202e") & set(out + err)


HOSTILE = "a|b `c` <img src=x> [d](e) @team #7 https://f www.g ~~h~~ *i* _j_\x1b[31m\n# k"


def test_names_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, factor in (("a", 1.0), ("b", 1.3)):
        row = program(name, nine(factor), workload=HOSTILE)
        write_programs(tmp_path / name, [row])
    code, out, _ = answer(
        capsys, "compare", tmp_path / "a", tmp_path / "b", "--check", "--markdown"
    )
    assert code == 3
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    assert rows
    assert {line.count("|") for line in rows if "worse than allowed" in line} == {6}  # five cells
    for markup in (
        "<img",
        "`c`",
        "[d]",
        "@team",
        "#7",
        "https://f",
        "www.g",
        "*i*",
        " _j_",
        "\x1b",
    ):
        assert markup not in out
    assert escaped("resnet18_fp16: time") == "resnet18_fp16: time"  # plain names stay readable
    assert escaped("a|b") == "a&#124;b"
