"""Tables that cannot be true: every command that answers from them says so, and none recommends."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.cli.__main__ import run
from tests.cli.decide_runs import answer, document

TIMES = """mode,gpu_mhz,emc_mhz,cpu_mhz,sms,network,batch,precision,time_ms,power_w
7W,408,2133,960,4,odd,1,fp16,20,5
15W,612,2133,1190,8,odd,1,fp16,10,10
25W,820,3199,1420,8,odd,1,fp16,7,15
MAXN,1020,3199,1728,8,odd,1,fp16,80,20
7W,408,2133,960,4,sound,1,fp16,22,5
15W,612,2133,1190,8,sound,1,fp16,11,10
25W,820,3199,1420,8,sound,1,fp16,8,15
MAXN,1020,3199,1728,8,sound,1,fp16,7,20
"""
RATES = """mode,precision,GFLOP/s,GB/s,l2_gb_per_s
15W,fp32,1000,60,30
MAXN,fp32,2000,70,200
"""
ODD = (
    "odd took 11.4 times as long in MAXN as in 25W (80.0 ms against 7.00 ms), though no clock of "
    "MAXN is lower; the slower mode throttled, or one of the two is wrong: measure both again"
)


def imported(folder: Path, table: str) -> Path:
    folder.mkdir()
    path = folder / "table.csv"
    path.write_text(table, encoding="utf-8")
    arguments = ["import", str(path), "--citation", "made up", "--device", "Jetson Madeup"]
    assert run([*arguments, "--runs", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return imported(tmp_path_factory.mktemp("times") / "runs", TIMES)


def test_recommend(times: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = answer(capsys, "recommend", "odd", "--runs", times, "--max-latency", "30ms")
    assert code == 1
    assert out == f"Nothing can be recommended for odd: {ODD}.\n"
    assert f"warning: Jetson Madeup (published): {ODD}" in err
    asked = ("recommend", "odd", "--runs", times)
    (found,) = document(capsys, *asked, expected_code=1)["recommendations"]
    assert (found["verdict"], found["choice"], found["unknown"]["choice"]) == ("unknown", None, ODD)


def test_another_network_is_recommended_as_before(
    times: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(capsys, "recommend", "sound", "--runs", times, "--minimise", "latency")
    assert code == 0
    assert "MAXN" in out
    assert "warning" not in err


def test_plan_and_report_warn(
    times: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "modes.csv"
    table.write_text("mode,gpu_mhz,memory_mhz\nnew,700,3199\n", encoding="utf-8")
    for arguments in (("plan", "--runs", times, "--mode", table), ("report", "--runs", times)):
        code, _, err = answer(capsys, *arguments)
        assert code == 0, err
        assert f"warning: Jetson Madeup (published): {ODD}" in err
    (found,) = document(capsys, "report", "--runs", times)["summary"]["findings"]
    assert (found["subject"], found["is_serious"], list(found["networks"])) == (
        "modes",
        True,
        ["odd"],
    )
    page = (times / "report.html").read_text(encoding="utf-8")
    assert "Do not rely on these measurements" in page


def test_a_workload_is_refused(
    times: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "mix.toml"
    mix.write_text('[[network]]\nmodel = "odd"\nrate = "5/s"\n', encoding="utf-8")
    code, out, _ = answer(capsys, "recommend", "--workload", mix, "--runs", times)
    assert code == 1
    assert out.startswith(f"Nothing can be recommended for Jetson Madeup (published): {ODD}.")


def test_roofs_in_the_wrong_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = imported(tmp_path / "runs", RATES)
    code, out, _ = answer(capsys, "recommend", "resnet18", "--runs", runs)
    assert code == 1
    assert out == (
        "Nothing can be recommended for resnet18: in 15W, L2 (30.0 GB/s) is slower than DRAM "
        "(60.0 GB/s); one of them is wrong: measure this mode again.\n"
    )
