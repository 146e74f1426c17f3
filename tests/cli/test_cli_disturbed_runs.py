"""``mansard recommend`` of networks that ran, but of which every run was disturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.cli.decide_runs import answer, document

WHY = "the CPU clock was at 1728 MHz, above its cap of 1113.6 MHz"


def disturbed_runs(folder: Path, model: str) -> Path:
    row = measurement("nets", (0.02, 0.021, 0.022), model=model, disturbances=(WHY,))
    write_networks(folder, [row])
    return folder


@pytest.mark.parametrize("name", ["detector", "<script>", "n" * 500])
def test_a_name_whose_runs_were_disturbed_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    runs = disturbed_runs(tmp_path / "runs", name)
    shown = name if len(name) < 100 else "n" * 40
    code, out, err = answer(capsys, "recommend", name, "--runs", runs)
    assert (code, out) == (1, "") if len(name) < 100 else code in {1, 2}
    if len(name) < 100:
        assert f"{shown} was measured in 2c (2026-01-02 03:04 UTC), but disturbed: {WHY}" in err
        assert "close other programs and measure again: mansard measure" in err
        assert "--engine ort --mode 2c --again" in err
    assert "is called" not in err or len(name) > 100


def test_a_network_of_the_zoo_without_roofs_was_disturbed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = disturbed_runs(tmp_path / "runs", "alexnet")
    code, _, err = answer(capsys, "recommend", "alexnet", "--runs", runs)
    assert code == 1
    assert "alexnet was measured in 2c (2026-01-02 03:04 UTC), but disturbed" in err
    assert "predict from roofs: mansard bench" in err
    assert "name a network" not in err


def test_with_roofs_the_prediction_says_that_the_runs_were_disturbed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = disturbed_runs(write_two_modes(tmp_path / "runs"), "alexnet")
    _, out, _ = answer(capsys, "recommend", "alexnet", "--runs", runs)
    assert "alexnet was measured in 2c (2026-01-02 03:04 UTC), but disturbed" in out
    assert "measure again: mansard measure alexnet --engine ort --mode 2c --again" in out
    (one,) = document(capsys, "recommend", "alexnet", "--runs", runs)["recommendations"]
    assert one["basis"] == "roofs"
    assert one["set_aside"].startswith("alexnet was measured in 2c")


def test_other_runs_that_count_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = disturbed_runs(tmp_path / "runs", "alexnet")
    calm = measurement("calm", (0.02, 0.021, 0.022), model="alexnet")
    write_networks(runs, [calm])
    (one,) = document(capsys, "recommend", "alexnet", "--runs", runs)["recommendations"]
    assert one["set_aside"] == ""
    assert one["basis"] == "measured"
