"""A folder of runs from somebody else, with links out of it: nothing outside is touched."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from mansard import api
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.opening import merge
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import read_published, write_published
from mansard.core.errors import StorageError
from tests.analytics.factory import fma_trials, manifest, write_run, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores

LINK = "is a link, and a folder of runs holds none"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of somebody's own, with what the dataset would take for its own files."""
    folder = tmp_path / "victim"
    for name in ("precious.parquet", "0.parquet", ".x.parquet.y", "notes.txt"):
        path = folder / "run_id=other" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"mine")
        (folder / name).write_bytes(b"mine")
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_two_modes(tmp_path / "runs")
    write_scores(tmp_path / "runs", [score("one", [layer(0, 1, 2)])])
    return tmp_path / "runs"


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def read_files(runs: Path) -> list[Path]:
    """The files of the dataset; those of ``layers`` are for other programs."""
    files = [path for path in (runs / "dataset").rglob("*") if path.is_file()]
    return [path for path in files if "layers" not in path.parts]


def use(runs: Path) -> None:
    api.report([str(runs)])


@pytest.mark.parametrize(
    "place",
    [
        "dataset",
        "dataset/runs",
        "dataset/trials",
        "dataset/trials/run_id=other",
        "dataset/trials/run_id=run-1c",
        "dataset/runs/run_id=run-1c",
        "dataset/scores/score_id=x",
        "published",
    ],
)
@pytest.mark.parametrize("is_fresh", [True, False])
def test_a_link_to_a_folder(runs: Path, victim: Path, place: str, *, is_fresh: bool) -> None:
    if not is_fresh:
        ingest(runs)
    before = content(victim)
    path = runs / place
    if path.exists():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(victim)
    with pytest.raises(StorageError, match=rf"{path.name}: {LINK}"):
        use(runs)
    assert content(victim) == before
    assert path.is_symlink()


def test_what_does_not_bear_our_names_is_left_alone(runs: Path) -> None:
    ingest(runs)
    trials = runs / "dataset" / "trials"
    (trials / "mine").mkdir()
    (trials / "mine" / "0.parquet").write_bytes(b"mine")
    (trials / "run_id=a file").write_bytes(b"mine")
    write_two_modes(runs / "later")
    ingest(runs)
    assert (trials / "mine" / "0.parquet").read_bytes() == b"mine"
    assert (trials / "run_id=a file").read_bytes() == b"mine"


@pytest.mark.parametrize(
    "place", ["report.html", "scores.jsonl", "run-1c/trials.jsonl", "run-1c/manifest.json"]
)
def test_a_link_to_a_file(runs: Path, victim: Path, place: str) -> None:
    path = runs / place
    path.unlink(missing_ok=True)
    path.symlink_to(victim / "notes.txt")
    with pytest.raises(StorageError, match=rf"{path.name}: {LINK}"):
        use(runs)
    assert (victim / "notes.txt").read_bytes() == b"mine"


def test_links_to_the_files_of_the_dataset(runs: Path, victim: Path) -> None:
    ingest(runs)
    for path in read_files(runs):
        path.unlink()
        path.symlink_to(victim / "notes.txt")
        with pytest.raises(StorageError, match=LINK):
            ingest(runs)
        path.unlink()
        ingest(runs)
    assert set(content(victim).values()) == {b"mine"}


def test_the_users_own_output_may_be_a_link(runs: Path, tmp_path: Path) -> None:
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    link.symlink_to(page)
    assert api.report([str(runs)], link).path == link
    assert link.is_symlink()
    assert page.read_text().startswith("<!doctype html>")


def test_a_folder_of_runs_may_be_a_link(runs: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(runs)
    assert api.report([str(link)]).path == link / "report.html"
    assert (runs / "report.html").is_file()


def test_a_link_beside_the_runs_is_passed_over_with_a_note(runs: Path, tmp_path: Path) -> None:
    elsewhere = write_run(tmp_path / "elsewhere" / "r", manifest("r"), fma_trials("r"))
    before = content(elsewhere)
    (runs / "linked").symlink_to(elsewhere)
    (runs / "latest").symlink_to("run-1c")
    found = ingest(runs)
    assert found.runs["run_id"].to_list() == ["run-1c", "run-2c"]
    assert found.notes == (
        "latest: ignored, it is a link, and a folder of runs holds none",
        "linked: ignored, it is a link, and a folder of runs holds none",
    )
    assert content(elsewhere) == before


@pytest.mark.parametrize("place", ["trials", "runs", "trials/run_id=run-1c"])
def test_merge_writes_through_no_link(runs: Path, victim: Path, place: str) -> None:
    into = victim.parent / "fleet"
    path = into / place
    path.parent.mkdir(parents=True)
    path.symlink_to(victim)
    before = content(victim)
    with pytest.raises(StorageError, match=LINK):
        merge([runs], str(into))
    assert content(victim) == before


def test_import_writes_through_no_link(tmp_path: Path, victim: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("mode,precision,unit,GFLOP/s\nMAXN,fp16,tensor,100\n")
    origin = PublishedOrigin(device="board", processor="gpu", citation="me")
    imported = import_table(table, origin)
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / "published").symlink_to(victim)
    before = content(victim)
    for act in (lambda: write_published(runs, imported), lambda: read_published(runs)):
        with pytest.raises(StorageError, match=rf"published: {LINK}"):
            act()
    assert content(victim) == before


def test_pipes_in_the_dataset_are_not_waited_for(runs: Path) -> None:
    ingest(runs)
    for path in read_files(runs):
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(StorageError, match="is not a regular file"):
            ingest(runs)
        path.unlink()
        ingest(runs)
