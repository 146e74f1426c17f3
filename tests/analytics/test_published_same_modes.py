"""Modes that tables of one device spell differently are joined, with a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.published.store import known_modes, read_published
from mansard.analytics.models.predict.models import find_models
from tests.analytics.test_published_roofs import put

HEADER = "mode,network,batch,time_ms,power_w,gpu_mhz,emc_mhz\n"
AGX, NANO, NX = "Jetson AGX Orin 64GB", "Jetson Orin Nano 8GB Super", "Jetson Orin NX 16GB"


def names(runs: Path, device: str, *tables: str) -> tuple[list[str], list[str]]:
    """The modes of ``device`` after the imports of ``tables``, and the notes on their names."""
    for number, rows in enumerate(tables):
        put(runs, HEADER + rows.replace(";", "\n") + "\n", device, author=f"author {number}")
    found = known_modes(read_published(runs))
    ((device_name, modes),) = found.modes.items()
    return sorted(modes), [note for note in found.notes[device_name] if " is " in note]


@pytest.mark.parametrize(
    ("device", "one", "other", "modes", "notes"),
    [
        (AGX, "15W,a,1,20,9,,", "MODE_15W,b,1,30,9,,", ["15W"], "the names differ in spelling"),
        (AGX, "MAXN,a,1,20,9,,", "maxn,b,1,30,9,,", ["MAXN"], "the names differ in spelling"),
        (NANO, "MAXN,a,1,9,9,,", "MAXN_SUPER,b,1,8,9,,", ["MAXN_SUPER"], "by NVIDIA's modes of"),
        # 918 MHz in one of NVIDIA's files, 1173 MHz in the other.
        (NX, "MAXN,a,1,9,9,,", "MAXN_SUPER,b,1,8,9,,", ["MAXN", "MAXN_SUPER"], ""),
        (
            *("Board", "mine,a,1,20,9,1300,3199", "gpu1300,b,1,30,9,1300,3199", ["mine"]),
            "their clocks, cores and SMs are equal",
        ),
        ("Board", "mine,a,1,20,9,1300,3199", "gpu612,b,1,9,9,612,3199", ["gpu612", "mine"], ""),
        # Another spelling and other clocks: two modes.
        ("Board", "15W,a,1,9,9,612,3199", "MODE_15W,b,1,9,9,408,3199", ["15W", "MODE_15W"], ""),
        # In one table they are two.
        ("Board", "x,a,1,9,9,612,3199;y,a,1,9,9,612,3199", "x,b,1,9,9,,", ["x", "y"], ""),
        (
            *("Board", "x,a,1,9,9,612,3199", "y,b,1,9,9,612,3199;x,b,1,8,9,612,3199"),
            *(["x", "y"], ""),
        ),
    ],
)
def test_modes_of_two_tables_are_one_where_their_names_mean_one(
    tmp_path: Path, device: str, one: str, other: str, modes: list[str], notes: str
) -> None:
    found, said = names(tmp_path / "runs", device, one, other)
    assert found == modes
    assert len(said) == bool(notes)
    assert all(notes in note for note in said)


def test_notes_of_many_modes_are_one_line(tmp_path: Path) -> None:
    one, other = (
        ";".join(f"{prefix}{n}W,a,1,20,9,," for n in range(10, 17)) for prefix in ("", "MODE_")
    )
    _, (note,) = names(tmp_path, "Board", one, other)
    shown = ", ".join(f"MODE_{n}W is {n}W" for n in range(10, 15))
    assert note == f"{shown} and 2 more: the names differ in spelling alone"


def test_of_two_modes_with_one_name_the_clocks_tell_which_it_is(tmp_path: Path) -> None:
    for rows in ("15W,a,1,9,9,612,3199", "15W,b,1,9,9,408,3199", "MODE_15W,c,1,9,9,408,3199"):
        path = put(tmp_path, f"{HEADER}{rows}\n")
    found = read_published(tmp_path)
    last = path.stem.removeprefix("runs-")
    assert dict(found.renamed.names) == {(last, "MODE_15W"): "15W"}
    assert len({(row.mode.name, row.mode.gpu_hz) for row in found.runs}) == 2


def test_a_time_under_one_spelling_is_measured_under_the_other(tmp_path: Path) -> None:
    names(tmp_path, AGX, "15W,a,1,20,9,,", "MODE_15W,b,1,30,9,,;MODE_MAXN,a,1,10,22,,")
    models = find_models(ingest(tmp_path))
    modes = ["15W", "MODE_MAXN"]
    assert models.modes["mode"].to_list() == modes
    seen = models.observations.select("mode", "network", "latency_s").rows()
    assert set(seen) == {("15W", "a", 0.02), ("15W", "b", 0.03), ("MODE_MAXN", "a", 0.01)}
