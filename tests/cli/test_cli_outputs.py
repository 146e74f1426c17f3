"""No command replaces a file that it did not write, unless it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.errors import UsageError
from mansard.estimator import zoo
from reproductions.nn_profiler.folder import write_profiler_files
from tests.analytics.factory import write_two_modes
from tests.analytics.hierarchical_samples import made_up, write_npz
from tests.cli.decide_runs import answer
from tests.cli.test_cli_help import EVERY
from tests.cli.test_cli_schedule import TWO
from tests.documents.given import make_given

MINE = b"my trained network\n"
LOG = Path(__file__).with_name("tegrastats.log")


def prepared(folder: Path) -> dict[str, tuple[object, ...]]:
    """A command for each option that names a file to write, and the file that it writes, last."""
    model = zoo.write("squeezenet1_1", folder / "zoo")
    runs = folder / "runs"
    write_two_modes(runs)
    samples = write_npz(folder / "samples.npz", made_up(50))
    (folder / "problem.toml").write_text(TWO, "utf-8")
    problem = folder / "problem.toml"
    hi = ("offload", "tune", samples, "--beta", "0.3")
    make_given("profile.json", folder / "profile.json")
    layers = ("layers", "alexnet", "--profile", folder / "profile.json")
    return {
        "models write folder": (
            "models",
            "write",
            folder,
            "squeezenet1_1",
            folder / "squeezenet1_1.onnx",
        ),
        "score output": ("score", model, "--format", "csv", "--output", folder / "a.csv"),
        "models layers html": (*layers, "--html", folder / "l.html"),
        "score html": ("score", model, "--html", folder / "a.html"),
        "board telemetry output": (
            "telemetry",
            LOG,
            "--format",
            "csv",
            "--output",
            folder / "t.csv",
        ),
        "figure output": ("figure", "roofline", "--runs", runs, "-o", folder / "f.svg"),
        "report output": ("report", "--runs", runs, "--output", folder / "r.html"),
        "compare save": ("compare", runs, "--save", folder / "b.json"),
        "offload tune curve": (*hi, "--curve", folder / "c.csv"),
        "offload tune html": (*hi, "--html", folder / "h.html"),
        "multi schedule html": ("schedule", problem, "--html", folder / "s.html"),
        "multi schedule save_problem": ("schedule", problem, "--save-problem", folder / "s.toml"),
        # Of these a file is in the way, and nothing is measured or written.
        "models export output": ("export", "gone:net", "--output", folder / "e.onnx"),
        "data image save path": ("image", "save", folder / "i.tar.gz"),
        "bench runs": ("bench", "gone.onnx", "--runs", runs, runs / "report.html"),
        "demo folder": ("demo", "--folder", folder / "d", folder / "d/report.html"),
        "demo simulated folder": (
            *("demo", "simulated", "--folder", folder / "d"),
            folder / "d/runs/report.html",
        ),
        "report runs": ("report", "--runs", runs, runs / "report.html"),
        "board watch record": ("watch", "--record", folder / "w.csv"),
    }


# Their last word is the file, and no word of the command.
IN_FOLDERS = {"models write folder", "bench runs", "demo folder", "demo simulated folder"}
IN_FOLDERS |= {"report runs"}
UNWRITTEN = {"models export output", "data image save path", "bench runs", "demo folder"}
UNWRITTEN |= {"demo simulated folder", "board watch record"}
FORCED_AGAIN = {"multi schedule save_problem"}  # anyone's problem looks like it
REPLACED = sorted(
    {
        *(
            "models write folder",
            "score output",
            "score html",
            "board telemetry output",
            "report output",
            "figure output",
        ),
        *(
            "offload tune curve",
            "offload tune html",
            "multi schedule html",
            "multi schedule save_problem",
            "compare save",
        ),
        "models layers html",
        *("report runs", *UNWRITTEN),
    }
)
# What is read, or a folder of runs, to which rows are added, or written otherwise: where it is
# tested.
OTHERS = {
    *(
        "board",
        "sources",
        "hosts_file",
        "images",
        "inputs",
        "data",
        "labels",
        "mapping",
        "logs",
        "places",
    ),
    *(
        "workload",
        "first",
        "second",
        "samples",
        "judge",
        "costs",
        "config",
        "tables",
        "ncu",
        "fonts",
    ),
    *("depends", "profile", "graph", "remote_predictions", "models build runs", "offload run runs"),
    *("exports", "wheels", "models", "measure runs", "multi run runs", "multi contention runs"),
    *("recommend runs", "board plan runs", "score runs", "data import runs", "models ncu run runs"),
    *("models ncu import runs", "models ncu check runs", "data image load path"),
}


def path_options() -> set[str]:
    return {
        f"{' '.join(words)} {parameter.name}"
        for words, command in EVERY.items()
        for parameter in command.params
        if parameter.type.name in {"path", "file", "directory"}
    }


def test_every_option_that_names_a_file_is_here() -> None:
    missing = {
        option
        for option in path_options()
        if option not in {*REPLACED, *OTHERS} and option.rpartition(" ")[2] not in OTHERS
    }
    assert missing == set()


@pytest.mark.parametrize("kind", REPLACED)
def test_a_file_of_the_users_stays(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = prepared(tmp_path)[kind]
    path = words[-1]
    assert isinstance(path, Path)
    command = words[:-1] if kind in IN_FOLDERS else words
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(MINE)
    code, _, err = answer(capsys, *command)
    assert (code, path.read_bytes()) == (2, MINE)
    *_, line = err.splitlines()
    assert f"{path}" in line
    assert "already exists" in line
    if kind in UNWRITTEN:
        return
    assert "--force to replace it" in line
    code, _, err = answer(capsys, *command, "--force")
    assert code == 0, err
    written = path.read_bytes()
    assert written != MINE
    code, _, err = answer(capsys, *command)
    if kind in FORCED_AGAIN:
        assert (code, path.read_bytes()) == (2, written)
        return
    # Its own file is written again without a word.
    assert code == 0, err
    assert len(path.read_bytes()) == pytest.approx(len(written), rel=0.01)


def test_a_file_of_nn_profiler_stays(tmp_path: Path) -> None:
    ours, theirs = {"Mode15W.json": b"{}"}, tmp_path / "Mode15W.json"
    theirs.write_bytes(b'{"resnet18": {}}')
    with pytest.raises(UsageError, match=r"Mode15W\.json: already exists and was not written"):
        write_profiler_files({"ModeMAXN.json": b"{}", **ours}, tmp_path, replaces=False)
    assert [path.name for path in tmp_path.iterdir()] == ["Mode15W.json"]  # nothing before
    write_profiler_files(ours, tmp_path, replaces=True)
    assert theirs.read_bytes() == b"{}"
    write_profiler_files({"Mode15W.json": b"[]"}, tmp_path, replaces=False)  # its own
    assert theirs.read_bytes() == b"[]"
    theirs.write_bytes(b'{"changed": 1}')
    with pytest.raises(UsageError, match="it was changed since"):
        write_profiler_files(ours, tmp_path, replaces=False)
    assert theirs.read_bytes() == b'{"changed": 1}'


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
    assert "was not written by Mansard" in err


def test_a_network_in_the_place_of_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = answer(capsys, "models", "write", "squeezenet1_1")
    assert (code, [*tmp_path.iterdir()]) == (2, [])
    assert "write mansard models write . squeezenet1_1" in err
