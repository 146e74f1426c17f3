"""``models ncu run`` under a stand-in of Nsight Compute: killed, out of space, its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mansard.core.storage.leftovers import is_hidden_name
from tests.cli.decide_runs import answer
from tests.inference.ncu_stand_in import write_ncu
from tests.inference.small_networks import perceptron
from tests.waiting import awaited

MANSARD = (sys.executable, "-m", "mansard.cli")
Capsys = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network and the stand-in."""
    folder = tmp_path_factory.mktemp("made")
    perceptron(folder / "small.onnx", batch="N")
    write_ncu(folder)
    return folder


@pytest.fixture
def words(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command's words; this process and those that it starts have folders of the test's own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("PATH", f"{made}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it was read from the environment before
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # other sweeps are not waited for
    given = ["ncu", "run", str(made / "small.onnx"), "--provider", "cpu", "--chip", "ga10b"]
    return [*given, "--runs", str(tmp_path / "runs")]


def profiled(tmp_path: Path) -> list[str]:
    """The processes of networks whose job is in this test's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        is_ncu = any(word.endswith("/ncu") for word in text.split("\0"))
        if str(tmp_path) in text and "counters.profiled" in text and not is_ncu:
            found.append(text)
    return found


def exports(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "runs").glob("*/exports/*"))


def test_tables_and_json(words: list[str], tmp_path: Path, capsys: Capsys) -> None:
    code, out, err = answer(capsys, *words, "--batch", "1,2", "--json")
    assert code == 0, err
    networks = json.loads(out)["networks"]
    assert [one["row"]["batch"] for one in networks] == [1, 2]
    assert [kernel["kernel"] for kernel in networks[0]["kernels"]] == ["conv", "gemm"]
    _, out, err = answer(capsys, *words, "--batch", "1,2")
    assert "already measured" in err
    assert "5.120 kFLOP" in out
    assert str(exports(tmp_path)[0].parent) in out


def test_the_launches_of_a_counted_network_are_its_layers(
    words: list[str], tmp_path: Path, capsys: Capsys
) -> None:
    assert answer(capsys, *words, "--batch", "2")[0] == 0
    place = ["--runs", str(tmp_path / "runs"), "--json"]
    code, out, err = answer(capsys, "layers", words[2], *place)
    assert code == 0, err
    (network,) = json.loads(out)["networks"]
    assert network["batch"] == 2
    # The stand-in's kernels, of the last of the calls.
    assert {row["kernel"] for row in network["layers"]} == {"conv", "gemm"}
    assert {row["traffic_of"] for row in network["layers"]} == {"counted"}
    assert "Nsight Compute" in network["engine"]


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_while_it_counts_it_leaves_nothing_and_goes_on(
    words: list[str], tmp_path: Path, capsys: Capsys, number: signal.Signals
) -> None:
    words += ["--calls", "100"]
    process = subprocess.Popen(
        [*MANSARD, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert awaited(lambda: bool(profiled(tmp_path)))
    process.send_signal(number)
    _, said = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in said
    assert awaited(lambda: not profiled(tmp_path))  # it does not outlive the command
    assert all(is_hidden_name(path.name) for path in exports(tmp_path))
    code, _, err = answer(capsys, *words)
    assert code == 0, err
    (export,) = exports(tmp_path)
    assert export.suffix == ".csv"
    assert not list((tmp_path / "tmp").iterdir())


def test_a_limit_on_files_is_one_line_and_nothing_is_kept(
    words: list[str], tmp_path: Path, capsys: Capsys
) -> None:
    limit = 1 << 20  # the network takes 33 kB
    ran = subprocess.run(
        ["prlimit", f"--fsize={limit}", *MANSARD, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BULK": str(2 * limit)},
    )
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("mansard: ")
    assert "ulimit -f" in last
    assert not exports(tmp_path)
    assert answer(capsys, *words)[0] == 0
