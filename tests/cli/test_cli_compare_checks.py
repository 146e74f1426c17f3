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


BUSY = "other programs used 40 % of the CPUs"


def runs_of_programs(folder: Path, times: list[float], n_disturbed: int = 0) -> Path:
    """A folder with runs of one program, the last ``n_disturbed`` of them disturbed."""
    for number, factor in enumerate(times):
        disturbances = (BUSY,) if number >= len(times) - n_disturbed else ()
        row = program(
            f"run{number}",
            nine(factor),
            trial_id=f"{number:016}",
            disturbances=disturbances,
            started_utc=f"2026-01-02T05:{number:02}:00Z",
        )
        write_programs(folder, [row])
    return folder


def words_of(out: str) -> str:
    return " ".join(out.split())


def test_a_gate_says_how_many_more_runs_it_needs_and_which_were_disturbed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = runs_of_programs(tmp_path / "a", [1.0, 1.04])
    second = runs_of_programs(tmp_path / "b", [1.03, 1.0, 1.5], n_disturbed=1)
    both = ("compare", first, second, "--check", "p50 +5%")
    (check,) = json.loads(answer(capsys, *both, "--json")[1])["checks"]
    assert (check["verdict"], check["needed_of"]) == ("unknown", "runs")
    assert (check["disturbed_first"], check["disturbed_second"]) == (0, 1)
    # Each side has two runs that count.
    assert check["more_first"] == check["more_second"] == check["needed"] - 2 > 0
    code, out, _ = answer(capsys, *both)
    more, said = check["more_first"], words_of(out)
    assert code == 4
    assert f"needs {more} more runs of each side" in said
    assert (
        f"undetermined: 1 of 1 checks (exit code 4): measure {more} more runs of each side "
        "(--again); 1 run of the second was disturbed and does "
        "not count"
    ) in said


def test_a_side_of_disturbed_runs_alone_needs_one_that_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = runs_of_programs(tmp_path / "a", [1.0])
    second = runs_of_programs(tmp_path / "b", [1.0, 1.1], n_disturbed=2)
    for check in ("p50 +5%", "default"):
        code, out, _ = answer(capsys, "compare", first, second, "--check", check)
        assert code == 4
        said = words_of(out)
        assert "measure 1 more run of the second (--again)" in said
        assert "2 runs of the second were disturbed and do not count" in said
        assert f"no quantities could be tested: llm: time: {BUSY}" in said
        assert "0 of 0" not in said


def test_what_is_too_short_to_test_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("a", "b"):
        write_programs(tmp_path / side, [program("run", [1.0, 1.01, 1.02])])
    said = words_of(answer(capsys, "compare", tmp_path / "a", tmp_path / "b")[1])
    assert (
        "none of 2 quantities could be tested: too few blocks to tell: a side has 3, 4 are "
        "needed (2)"
    ) in said
    other = tmp_path / "c"
    write_programs(other, [program("run", nine(1.0), workload="another")])
    said = words_of(answer(capsys, "compare", tmp_path / "a", other)[1])
    assert "no quantities could be tested: the two sides have none in common" in said


def test_a_baseline_without_a_value_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = runs_of_programs(tmp_path / "good", [1.0])
    bad = runs_of_programs(tmp_path / "bad", [1.0, 1.1], n_disturbed=2)
    base = tmp_path / "base.json"
    code, out, err = answer(capsys, "compare", bad, "--save", base)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"no baseline is written: nothing has a usable value (llm: time: {BUSY}; " in err
    # After a comparison it is undetermined; an earlier baseline stays.
    assert answer(capsys, "compare", good, "--save", base)[0] == 0
    before = base.read_bytes()
    code, out, err = answer(capsys, "compare", good, bad, "--save", base)
    assert code == 4
    assert "no baseline is written: nothing has a usable value" in words_of(err)
    assert "baseline: " not in err
    assert base.read_bytes() == before


def test_a_baseline_names_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = runs_of_programs(tmp_path / "runs", [1.0])
    row = program("bad", nine(1.0), workload="noisy", disturbances=(BUSY,), trial_id="n" * 16)
    write_programs(runs, [row])
    code, _, err = answer(capsys, "compare", runs, "--save", tmp_path / "base.json")
    assert code == 0
    assert f"note: not in the baseline: noisy: time: {BUSY}" in words_of(err)
