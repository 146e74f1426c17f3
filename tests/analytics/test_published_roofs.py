"""Published tables in a folder of runs: kept, read, made into roofs and frames, never mixed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.model_frames import (
    COEFFICIENT_SCHEMA,
    MODE_SCHEMA,
    OBSERVATION_SCHEMA,
)
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.store import (
    Published,
    published_coefficients,
    published_in,
    published_modes,
    published_observations,
    read_published,
    write_published,
)
from mansard.analytics.models.roofs.published_rooflines import MOST_ROOFS, published_rooflines
from mansard.analytics.pages.report.summary import summary
from mansard.analytics.pages.report.write import render
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.ceilings import bandwidth_table
from mansard.analytics.pages.tables.provenance import source_table
from mansard.core.errors import InputError, MansardError, SchemaError
from mansard.core.records import Processor
from tests.analytics.factory import machine, write_two_modes

RATES = (
    "mode,precision,gflops,gb_per_s,gpu_mhz,sms\n"
    "MAXN,fp32,2000,200,1300,16\n15W,tf32,1500,80,408,6\n"
)
RUNS = "mode,network,batch,time_ms,power_w\nMAXN,resnet50,1,20,30\nMAXN,resnet50,8,,40\n"


def put(
    runs: Path,
    text: str,
    device: str = "Board",
    author: str = "A",
    processor: Processor = "gpu",
) -> Path:
    runs.mkdir(exist_ok=True)
    table = runs.parent / "t.csv"
    table.write_text(text)
    origin = PublishedOrigin(device=device, processor=processor, citation=author)
    return write_published(runs, import_table(table, origin))[0]


def test_a_table_that_is_imported_twice_is_there_once(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert read_published(tmp_path).is_empty
    first = put(runs, RATES)
    before = first.read_bytes()
    assert put(runs, RATES) == first
    assert first.read_bytes() == before
    assert not read_published(runs).is_empty
    assert [rate.row for rate in read_published(runs, runs).rates] == [2, 2, 3, 3]
    assert published_in([str(runs), "s3://bucket/runs"]) == read_published(runs)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"value":2000000000000.0', '"value":3000000000000.0', InputError),
        ('"published-rate","version":1', '"published-rate","version":9', SchemaError),
        ('"quantity":"peak"', '"quantity":"peak","extra":1', SchemaError),
        ('"value":2000000000000.0', '"value":"fast"', SchemaError),
    ],
)
def test_a_file_that_was_changed_is_refused(
    tmp_path: Path, old: str, new: str, error: type[MansardError]
) -> None:
    path = put(tmp_path, RATES)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(error):
        read_published(tmp_path)


def test_a_torn_or_renamed_file_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, RATES)
    other = path.with_name("rates-0123456789abcdef.jsonl")
    path.rename(other)
    with pytest.raises(InputError, match="does not hold the table that its name says"):
        read_published(tmp_path)
    other.rename(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="does not hold the table"):
        read_published(tmp_path)


def test_frames_have_the_schemas_and_give_reasons(tmp_path: Path) -> None:
    put(tmp_path, RATES)
    put(tmp_path, RUNS)
    published = read_published(tmp_path)
    modes, coefficients = published_modes(published), published_coefficients(published)
    observations = published_observations(published)
    assert modes.schema == MODE_SCHEMA
    assert coefficients.schema == COEFFICIENT_SCHEMA
    assert observations.schema == OBSERVATION_SCHEMA
    assert modes.rows(named=True)[0] == {
        "device": "Board (published)",
        "mode": "MAXN",
        "gpu_hz": 1.3e9,
        "memory_hz": None,
        "cpu_hz": None,
        "n_sms": 16,
        "n_cpus": None,
        "power_limit_w": None,
    }
    assert modes["mode"].to_list() == ["MAXN", "15W"]
    assert coefficients["value"].to_list() == [2e12, 2e11, 1.5e12, 8e10]
    assert coefficients["low"].null_count() == len(coefficients) == 4
    assert set(coefficients["reason"]) == {"published without an interval"}
    assert observations["latency_s"].to_list() == [0.02, None]
    assert observations["reason"].to_list() == [None, "time: the table leaves it empty"]
    assert set(observations["device"]) == {"Board (published)"}


def test_nothing_published_gives_empty_frames() -> None:
    nothing = Published()
    assert published_modes(nothing).schema == MODE_SCHEMA
    assert published_coefficients(nothing).is_empty()
    assert published_observations(nothing).is_empty()
    assert published_rooflines(nothing) == ()


def test_a_roof_for_each_mode(tmp_path: Path) -> None:
    put(tmp_path, RATES)
    maxn, low = published_rooflines(read_published(tmp_path))
    assert (maxn.label, maxn.source, maxn.n_sms) == ("Board (published), MAXN", "published", 16)
    assert maxn.n_cpus is None
    assert maxn.unknown["n_cpus"] == "the table has no such column"
    assert [peak.name for peak in (*maxn.peaks, *low.peaks)] == ["fp32", "tf32 tensor"]
    assert maxn.bandwidth("DRAM").value == 2e11
    assert maxn.bandwidth("DRAM").unknown["low"] == "published without an interval"
    (ridge,) = maxn.ridges()
    assert (ridge.value, ridge.low) == (10.0, None)  # 2000 GFLOP/s over 200 GB/s
    assert low.peak("fp32").value is None


def test_a_table_of_many_modes_has_roofs_for_some(tmp_path: Path) -> None:
    rows = [f"m{at},fp32,{500 + at},50\n" for at in range(3 * MOST_ROOFS)]
    put(tmp_path, "mode,precision,gflops,gb_per_s\n" + "".join(rows))
    published = read_published(tmp_path)
    roofs = published_rooflines(published)
    assert len({roof.mode for roof in roofs}) == len(roofs) == MOST_ROOFS
    assert (roofs[0].mode, roofs[-1].mode) == ("m0", f"m{3 * MOST_ROOFS - 1}")
    assert len(published_modes(published)) == 3 * MOST_ROOFS
    assert source_table(published).rows[0][3] == "144, 48 of them with a roof"


def test_two_authors_are_never_one_roof(tmp_path: Path) -> None:
    put(tmp_path, RATES, author="A")
    put(tmp_path, RATES.replace("2000", "2100"), author="B")
    put(tmp_path, RUNS, author="C")
    published = read_published(tmp_path)
    labels = [roof.label for roof in published_rooflines(published)]
    assert len(set(labels)) == len(labels) == 4
    assert len({roof.run_id for roof in published_rooflines(published)}) == 4
    assert len(set(published_coefficients(published)["device"])) == 2
    # Whose roofs the runs belong to is then not known.
    assert set(published_observations(published)["device"]) == {"Board (published)"}


def test_runs_stand_beside_the_roofs_of_the_same_modes(tmp_path: Path) -> None:
    put(tmp_path, RATES)
    put(tmp_path, RUNS, author="B")
    # The same name for another clock: 1300 MHz there.
    put(tmp_path, RUNS.replace("mode,", "gpu_mhz,mode,").replace("MAXN", "1000,MAXN"), author="C")
    put(tmp_path, RATES.replace("2000", "100"), author="D", processor="cpu")
    published = read_published(tmp_path)
    assert set(published_coefficients(published)["device"]) == {
        "Board (published)",
        "Board CPU (published)",
    }
    by_author = {run.citation: run.table_id for run in published.runs}
    assert published_observations(published).group_by("citation").agg(
        pl.col("device").first()
    ).sort("citation").rows() == [
        ("B", "Board (published)"),
        ("C", f"Board (published, {by_author['C'][:6]})"),
    ]


def test_published_figures_change_nothing_that_was_measured(tmp_path: Path) -> None:
    write_two_modes(tmp_path)
    alone = compute(ingest(tmp_path))
    put(tmp_path, RATES, device=machine().name)
    both = compute(ingest(tmp_path))
    assert both.roofs[: len(alone.roofs)] == alone.roofs
    measured = both.coefficients.filter(pl.col("source") != "published")
    assert measured.equals(alone.coefficients)
    assert [roof.source for roof in both.roofs[len(alone.roofs) :]] == ["published"] * 2
    assert not any("published" in note for note in both.dataset.notes)
    table = bandwidth_table(both)
    at = table.columns.index("Published")
    figures = [row[at] for row in table.rows]
    assert (figures[:-2], [figure[:4] for figure in figures[-2:]]) == ([""] * 8, ["200.", "80.0"])


def test_a_page_of_published_roofs_alone(tmp_path: Path) -> None:
    put(tmp_path, RATES, author="A. <Author>, 2026")
    dataset = ingest(tmp_path)
    results = compute(dataset)
    text = render(results)
    assert "Nothing was measured here" in text
    assert "A. &lt;Author&gt;, 2026" in text
    assert "A. <Author>" not in text
    assert ">unstable<" not in text.split("<summary>Labels</summary>")[0]
    modes = summary(dataset, results).modes
    assert [mode.source for mode in modes] == ["published"] * 2
    assert modes[0].unknown["energy"] == "published figures have no energy of their own"


def test_a_folder_without_runs_or_tables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    with pytest.raises(InputError, match="no run was found here"):
        ingest(tmp_path)


def test_a_power_with_a_remark_is_seen_by_no_model(tmp_path: Path) -> None:
    put(
        tmp_path,
        "mode,network,time_ms,power_w,remark\nMAXN,net,20,3,a hundredth of the others\n"
        "15W,net,40,10,\n",
    )
    found = {row["mode"]: row for row in compute(ingest(tmp_path)).observations.to_dicts()}
    assert found["15W"]["power_w"] == 10.0
    assert found["MAXN"]["power_w"] is None
    assert found["MAXN"]["latency_s"] == pytest.approx(0.020)
    assert found["MAXN"]["reason"] == "power: a hundredth of the others"


@pytest.mark.parametrize(
    ("powers", "minimise"), [(("30", "10"), "energy"), (("30", ""), "latency")]
)
def test_energy_decides_only_between_modes_that_have_one(
    tmp_path: Path, powers: tuple[str, str], minimise: str
) -> None:
    put(
        tmp_path,
        f"mode,network,time_ms,power_w\nMAXN,net,20,{powers[0]}\n15W,net,40,{powers[1]}\n",
    )
    (found,) = compute(ingest(tmp_path)).recommendations
    assert found.minimise == minimise
    assert found.choice is not None
    # 20 ms · 30 W = 0.6 J against 40 ms · 10 W = 0.4 J
    assert found.choice.mode == ("15W" if minimise == "energy" else "MAXN")
