"""``mansard data import`` as a user starts it."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

from tests.cli.in_process import mansard

TABLE = "mode,precision,unit,GFLOP/s,GB/s\nMAXN,fp16,tensor,5325.7,189.46\n"


def import_in(cwd: Path, *arguments: str) -> CompletedProcess[str]:
    return mansard("import", *arguments, cwd=cwd)


def test_a_table_is_kept_once_and_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE.replace("\n", ",x\n").replace("s,x", "s,colour"))
    arguments = ("t.csv", "--citation", "A. Author, 2026", "--module", "agx-orin", "--json")
    first, again = import_in(tmp_path, *arguments), import_in(tmp_path, *arguments)
    assert first.returncode == 0, first.stderr
    assert first.stderr == (
        "note: t.csv: not read: colour\n"
        "note: t.csv: SMs, EMC clock, GPU clock, CPU clock and cores of MAXN from NVIDIA's modes "
        "of Jetson AGX Orin 64GB: the table does not say them\n"
    )
    (row,) = json.loads(first.stdout)["tables"]
    assert (row["rates"], row["runs"], row["modes"]) == (2, 0, ["MAXN"])
    assert row["was_there"] is False
    assert json.loads(again.stdout)["tables"][0] == {**row, "was_there": True}
    (kept,) = (tmp_path / "runs/published").iterdir()
    assert kept.name == f"rates-{row['id']}.jsonl"
    assert '"device":"Jetson AGX Orin 64GB"' in kept.read_text()


def test_a_figure_above_the_hardware_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE.replace("GB/s", "TB/s"))
    result = import_in(tmp_path, "t.csv", "--citation", "A", "--module", "agx-orin")
    assert result.returncode == 0
    assert "note: t.csv: line 2: DRAM bandwidth of 189.5 TB/s" in result.stderr  # no \\xa0
    assert "2 rates in 1 mode, saved: " in result.stdout


def test_a_bad_table_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text(TABLE)
    (tmp_path / "bad.csv").write_text("mode,GB/s\n15W,80\n15W,81\n")
    result = import_in(tmp_path, "good.csv", "bad.csv", "--citation", "A", "--device", "B")
    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("mansard: bad.csv: lines 2 and 3 both give the bandwidth of DRAM")
    assert not (tmp_path / "runs").exists()


def test_wrong_usage_is_2(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    cited = ("t.csv", "--citation", "A")
    for arguments, words in (
        (cited, "the device has no name"),
        (("t.csv", "--citation", " ", "--device", "B"), "--citation has no value"),
        ((*cited, "--module", "orin-moon"), "unknown module 'orin-moon'"),
        ((*cited, "--device", "B", "--column", "nonsense"), "'nonsense' is not a new name=value"),
        ((*cited, "--device", "B", "--column", "time_ms=gone"), "has no column 'gone'"),
    ):
        result = import_in(tmp_path, *arguments)
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_files_of_a_tool_say_what_they_gave_and_what_to_add(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        '[ { "startEnqMs" : 1, "h2dMs" : 0, "computeMs" : 2, "d2hMs" : 0, "latencyMs" : 2 } ]'
    )
    (tmp_path / "p.json").write_text(
        '[ { "count" : 9 }\n, { "name" : "Conv_0 + Relu_1", "averageMs" : 2, "percentage" : 100 } ]'
    )
    files = ("t.json", "p.json", "--citation", "A", "--device", "B", "--fixed", "network=resnet18")
    missing = import_in(tmp_path, *files)
    assert (missing.returncode, missing.stdout) == (1, "")
    (line,) = missing.stderr.splitlines()
    assert line == ("mansard: t.json: the file does not say the mode; say --fixed mode=VALUE")
    assert not (tmp_path / "runs").exists()
    result = import_in(tmp_path, *files, "--fixed", "mode=fast")
    told = "no model uses 1 time without a batch: import the file with --fixed batch=N"
    assert (result.returncode, result.stderr) == (0, f"note: t.json: {told}\n")
    first, second = result.stdout.splitlines()
    assert first.startswith("1 network run in 1 mode, saved: runs/published/runs-")
    assert second.startswith("1 layer in 1 mode, saved: runs/published/layers-")
    done = import_in(tmp_path, *files, "--fixed", "mode=fast", "--json")
    again = json.loads(done.stdout)["tables"]
    assert [(row["runs"], row["layers"], row["was_there"]) for row in again] == [
        (1, 0, True),
        (0, 1, True),
    ]


def test_words_that_are_no_text_are_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("network,latency_ms\nresnet18,1\n")
    given = ("t.csv", "--device", "A", "--citation", "B", "--fixed", "mode=\udcff")  # the byte ff
    result = import_in(tmp_path, *given)
    assert result.returncode == 2
    assert result.stderr == "mansard: '\\udcff' is not text in UTF-8; write it in UTF-8\n"
    assert not (tmp_path / "runs").exists()


def test_a_peak_of_integers_above_the_hardware_is_told_in_operations(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("mode,precision,unit,TOPS\nMAXN,int8,tensor,275\n")
    result = import_in(tmp_path, "t.csv", "--citation", "A", "--module", "agx-orin")
    assert result.returncode == 0, result.stderr
    # 16 SMs · 4096 OP · 1300.5 MHz; the data sheet's 275 TOPS are with sparsity and the DLAs
    words = "int8 peak of 275.0 TOP/s in mode MAXN is above the 85.23 TOP/s"
    assert words in " ".join(result.stderr.split())
