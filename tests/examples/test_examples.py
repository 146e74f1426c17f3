"""The programs and notebooks of examples/ run as they are, in an empty folder, and stay short."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from mansard.core.errors import UsageError

FOLDER = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def source(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text("utf-8")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


@pytest.mark.parametrize("path", [*SCRIPTS, *NOTEBOOKS], ids=lambda path: path.name)
def test_an_example_is_short_listed_and_uses_the_api_alone(path: Path) -> None:
    text = source(path)
    assert len(text.splitlines()) <= 60
    assert f"]({path.name})" in (FOLDER / "README.md").read_text("utf-8")
    assert set(re.findall(r"(?:from|import) (mansard\S*)", text)) == {"mansard"}


def test_there_are_six() -> None:
    assert len(SCRIPTS) + len(NOTEBOOKS) == 6


def test_a_program_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / "own_program.py"), run_name="__main__")
    out = capfd.readouterr().out
    assert re.search(r"^the whole +[0-9.]+ ms  energy", out, re.MULTILINE)
    assert re.search(r"^prefill +[0-9.]+ ms", out, re.MULTILINE)
    assert re.search(r"^decode +[0-9.]+ ms", out, re.MULTILINE)


def test_language_models_on_a_board_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(FOLDER / "language_model.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert re.search(r"^llama-3\.2-1b:Q4_K_M +fits ", out, re.MULTILINE)
    rates = names["rates"].pivot("mode", index="network", values="tokens/s")
    assert rates.height == len(names["MODELS"])
    assert set(rates.columns) == {"network", "7W", "15W", "25W", "MAXN_SUPER"}
    # 4.9 GB a token at 102.4 GB/s: at most 21 of the largest, and nothing claims more.
    largest = rates.filter(network="llama-3.1-8b:Q4_K_M [decode 4096]")["MAXN_SUPER"][0]
    assert 15 < float(largest.removeprefix("≤ ")) < 21


def test_a_kernel_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(FOLDER / "custom_kernel.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"backwards"}
    # 2 arrays of 4 bytes an element, whatever the working set is.
    api, backwards = names["api"], names["backwards"]
    trials = api.measure_kernels([backwards])  # what is kept is not measured again
    assert len(trials) == len(lines)
    first = trials[0]
    assert first.traffic_bytes == pytest.approx(first.working_set_bytes, abs=1024)
    with pytest.raises(UsageError, match="unknown kernel 'backwards'"):
        api.find_kernel("backwards")  # it is there while it is measured alone


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_and_holds_no_outputs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is in the extra dev")
    import nbformat

    notebook = nbformat.reads(path.read_text("utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    text = str([cell.outputs for cell in code])
    assert {
        "fleet": "Jetson Orin Nano 8GB",
        "training": "activations_mb",
        "schedule": "optimal, proven",
    }[path.stem] in text
