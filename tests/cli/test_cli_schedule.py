"""``multi schedule``: the example of the documentation, limits, what cannot be scheduled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.api.test_haxconn_files import ENGINES, LAYERS, MARKS, ROUNDS, written
from tests.cli.cells import cells
from tests.cli.decide_runs import answer, document

DOCUMENT = Path(__file__).parents[2] / "docs/use/scheduling.md"
TWO = """
[[accelerator]]
name = "gpu"
kind = "gpu"
[[accelerator]]
name = "dla"
kind = "dla"
max_segments = 16
[[network]]
model = "a"
group = [
  {name = "one", time = {gpu = "1ms", dla = "3ms"}, leave = {gpu = "1ms", dla = "1ms"}},
  {name = "two", time = {gpu = "1ms", dla = "2ms"}},
]
[[network]]
model = "b"
group = [{time = {gpu = "4ms", dla = "5ms"}}]
"""


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.toml"
    path.write_text(TWO, encoding="utf-8")
    return path


def test_the_example_of_the_documentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.M | re.S)
    (tmp_path / "problem.toml").write_text(example, encoding="utf-8")
    found = document(capsys, "schedule", tmp_path / "problem.toml")
    best = found["best"]
    assert best["is_optimal"]
    by_method = {each["method"]: each["value"] for each in found["baselines"]}
    # Everything on the GPU: 1.7662 ms of GoogleNet, 1.79 ms of AlexNet.
    assert by_method["gpu only"] == pytest.approx(3.5562e-3)
    assert best["value"] < min(by_method.values())
    assert found["gain"] == pytest.approx(min(by_method.values()) / best["value"] - 1)


def test_tables_and_the_page(
    problem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "out/schedule.html"
    code, out, _ = answer(capsys, "schedule", problem, "--html", page)
    # a on the GPU and b on the DLA: 5 ms. Both on the GPU: 6; the other way 5 too.
    assert code == 0
    assert "2 networks on gpu and dla: makespan 5.00 ms, optimal, proven" in out
    assert "as good as the best baseline (naive, 5.00 ms)" in out
    assert "slowdown" not in out  # without contention nothing is known of it
    text = page.read_text("utf-8")
    assert 'id="gantt-spec"' in text
    assert "<title>Schedule of a and b</title>" in text
    assert "The best baseline, naive" in text


def test_files_of_haxconn_become_a_problem_that_can_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(
        tmp_path / "net",
        layer_results=LAYERS,
        dla_compute_times=ENGINES,
        transition_results=MARKS,
        rounds=ROUNDS,
    )
    saved = tmp_path / "problem.toml"
    code, out, _ = answer(capsys, "schedule", "--from", folder, "--save-problem", saved)
    assert code == 0
    assert "3 groups of net" in out
    assert "Published by HaX-CoNN" in out
    assert "4.86 %" in out
    assert "optimal, proven" in out
    one = document(capsys, "schedule", "--from", folder)
    assert one["files"][0]["file"] == "layer_results.json"
    assert one["published"][0]["time_s"]["Only GPU"] == pytest.approx(8.1e-3)
    again = document(capsys, "schedule", saved)
    assert again["best"]["value"] == one["best"]["value"]
    assert again["files"] == []
    code, _, err = answer(capsys, "schedule", "resnet18", "--from", folder)
    assert code == 2
    assert "name nothing else" in err


def test_a_problem_that_ships_is_scheduled_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    name = "haxconn-googlenet-alexnet"
    overlap = document(capsys, "schedule", name)
    assert overlap["best"]["is_optimal"]
    assert overlap["problem"]["contention"] == "overlap"
    always = document(capsys, "schedule", name, "--contention", "haxconn")
    assert always["problem"]["contention"] == "haxconn"
    assert always["best"]["value"] > overlap["best"]["value"]
    code, _, err = answer(capsys, "schedule", name, "resnet18")
    assert code == 2
    assert f"name {name} only" in err


def test_what_cannot_be_written_is_an_error_before_the_search(
    problem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved.toml"
    code, out, err = answer(
        capsys, "schedule", problem, "--html", tmp_path, "--save-problem", saved
    )
    assert (code, out) == (2, "")
    assert "a folder has the name of the chart" in err
    assert saved.exists()


def test_steady_rates_and_what_arrives(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TWO.replace('model = "b"', 'model = "b"\nrate = "100/s"\nmax_latency = "6ms"')
    problem.write_text(text, encoding="utf-8")
    given = ("schedule", problem, "--goal", "throughput")
    code, out, _ = answer(capsys, *given)
    assert code == 0
    assert "note: each network runs once, so its rate does not count: --steady" in out
    code, out, _ = answer(capsys, *given, "--steady")
    # a again and again on the GPU in 2 ms; b on the DLA every 10 ms, in 5.
    assert code == 0
    assert "total rate 600.0 /s, optimal" in out
    assert "The best schedule, the last run of each network" in out
    assert ["b", "5.00 ms", "5.00 ms", "6.00 ms", "kept", "100.0"] in cells(out)
    assert "does not count" not in out


def test_limits_that_cannot_be_kept(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answer(capsys, "schedule", problem, "--max-latency", "4ms")
    assert code == 1
    assert "No schedule meets the limits of 2 networks" in out
    assert "The nearest one: makespan 5 ms, limit 4 ms." in out


def test_a_saved_problem_has_the_same_answer(
    problem: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved.json"
    given = ("--goal", "min_rate", "--max-transitions", "0", "--save-problem", saved)
    first = document(capsys, "schedule", problem, *given)
    second = document(capsys, "schedule", saved)
    # Each in 5 ms at most: a in 2 ms, b in 5.
    assert first["best"]["value"] == second["best"]["value"] == pytest.approx(200)
    assert first["problem"] == second["problem"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('time = {gpu = "1ms", dla = "3ms"}, ', "", "no accelerator takes this group"),
        ('"4ms"', '"4"', "time: '4' has no unit"),
    ],
)
def test_what_cannot_be_scheduled_is_one_line(
    problem: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, line: str
) -> None:
    problem.write_text(TWO.replace(old, new), encoding="utf-8")
    code, out, err = answer(capsys, "schedule", problem)
    assert (code, out) == (1, "")
    assert line in err
    assert err.count("\n") == 1


def test_a_network_without_groups_names_the_option(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem.write_text(TWO.replace('group = [{time = {gpu = "4ms", dla = "5ms"}}]', ""), "utf-8")
    code, out, err = answer(capsys, "schedule", problem)
    assert (code, out) == (2, "")
    line = "mansard: b has no groups in this file; write its groups, or take them from --runs\n"
    assert err == line


def test_a_limit_without_its_unit_is_wrong_usage(
    problem: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = answer(capsys, "schedule", problem, "--max-latency", "4")
    assert code == 2
    assert "has no unit" in err


def test_the_front_and_the_sensitivity(problem: Path, capsys: pytest.CaptureFixture[str]) -> None:
    energies = 'time = {gpu = "4ms", dla = "5ms"}, energy = {gpu = "9mJ", dla = "2mJ"}'
    text = TWO.replace('time = {gpu = "4ms", dla = "5ms"}', energies)
    text = text.replace('name = "two", ', 'name = "two", time_error = {gpu = 0.1}, ')
    problem.write_text(text, encoding="utf-8")
    given = ("--front", "b", "--max-transitions", "0")
    found = document(capsys, "schedule", problem, *given)
    # The GPU is faster, the DLA cheaper.
    assert [each["accelerators"] for each in found["front"]] == [["gpu"], ["dla"]]
    assert [each["energy_j"] for each in found["front"]] == pytest.approx([9e-3, 2e-3])
    # Each whole on one of them is 5 ms, whatever two takes on the GPU within 10 %.
    assert (found["sensitivity"]["n_best"], found["sensitivity"]["n_draws"]) == (20, 20)
    code, out, _ = answer(capsys, "schedule", problem, *given)
    assert code == 0
    assert "sensitivity: no schedule is better in 20 of 20 draws of the inputs" in out
    # Of six times and two costs one time has an error.
    assert "sensitivity: 5 times and 2 costs of changes have no known error" in out
    assert "The front of one network alone" in out
