"""No command replaces a file that it did not write, unless it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.estimator import zoo
from tests.cli.decide_runs import answer

MINE = b"my trained network\n"
LOG = Path(__file__).parents[2] / "tools/command_inputs/tegrastats.log"


def commands(folder: Path) -> dict[str, tuple[object, ...]]:
    """A command for each option that names a file, and what it writes, last."""
    model = zoo.write("squeezenet1_1", folder / "zoo")
    return {
        "zoo write": ("zoo", "write", folder, "squeezenet1_1", folder / "squeezenet1_1.onnx"),
        "score csv": ("score", model, "--format", "csv", "-o", folder / "a.csv"),
        "score json": ("score", model, "--json", "-o", folder / "a.json"),
        "score page": ("score", model, "--html", folder / "a.html"),
        "telemetry csv": ("telemetry", LOG, "--format", "csv", "-o", folder / "t.csv"),
        "telemetry json": ("telemetry", LOG, "--json", "-o", folder / "t.json"),
        "pagoda": ("demo", "pagoda", "-o", folder / "p.html"),
    }


KINDS = (
    "zoo write",
    "score csv",
    "score json",
    "score page",
    "telemetry csv",
    "telemetry json",
    "pagoda",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_the_users_stays(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = commands(tmp_path)[kind]
    path = words[-1]
    assert isinstance(path, Path)
    command = words[:-1] if kind == "zoo write" else words
    path.write_bytes(MINE)
    code, _, err = answer(capsys, *command)
    assert (code, path.read_bytes()) == (2, MINE)
    (line,) = err.splitlines()
    assert line.startswith(f"mansard: {path}: is there already")
    assert "--force to replace it" in line
    code, _, err = answer(capsys, *command, "--force")
    assert code == 0, err
    written = path.read_bytes()
    assert written != MINE
    # Its own file is written again without a word.
    code, _, err = answer(capsys, *command)
    assert code == 0, err
    assert len(path.read_bytes()) == pytest.approx(len(written), rel=0.01)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b"model,accuracy\nmine,0.9\n"),
        ("a.json", b'{"schema": "https://json-schema.org/draft/2020-12/schema"}'),
        ("a.html", b"<!doctype html>\n<title>mine</title>"),
        ("a.html", b"\0\xff"),
    ],
)
def test_another_file_of_the_same_form_is_not_ours(
    name: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    form = {"a.csv": ("--format", "csv", "-o"), "a.json": ("--json", "-o"), "a.html": ("--html",)}
    code, _, err = answer(capsys, "score", "squeezenet1_1", *form[name], tmp_path / name)
    assert (code, (tmp_path / name).read_bytes()) == (2, content)
    assert "Mansard did not write it" in err


def test_a_network_in_the_place_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = answer(capsys, "zoo", "write", "squeezenet1_1")
    assert (code, [*tmp_path.iterdir()]) == (2, [])
    assert "write mansard zoo write . squeezenet1_1" in err
