from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.figures.figure import safe_json
from mansard.analytics.pages.report.write import write_report
from mansard.core.errors import StorageError
from tests.analytics.factory import (
    HOSTILE,
    Ceilings,
    fma_trials,
    machine,
    manifest,
    stream_trials,
    trial,
    write_run,
    write_two_modes,
)
from tests.analytics.page_reader import Page, chart_rows, specs
from tests.analytics.score_factory import layer, score, write_scores


def write(runs: Path) -> tuple[str, Page]:
    text = write_report(ingest(runs), runs / "report.html").read_text()
    return text, Page(text)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    runs = write_two_modes(tmp_path_factory.mktemp("runs"))
    layers = [layer(at, 10**9, 10**7, name=f"conv {at}") for at in range(60)]
    write_scores(runs, [score(f"net-{number}", layers) for number in range(10)])
    return write(runs)


def test_the_page_needs_nothing_from_outside(full: tuple[str, Page]) -> None:
    _, page = full
    assert page.attribute("script", "src") == []
    assert page.attribute("link", "href") == []
    assert all(str(href).startswith("#") for href in page.attribute("a", "href"))


def test_the_policy_names_exactly_the_scripts_that_run(full: tuple[str, Page]) -> None:
    text, page = full
    (policy,) = (
        str(attrs["content"])
        for tag, attrs in page.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    )
    data = [attrs.get("type") == "application/json" for tag, attrs in page.tags if tag == "script"]
    run = [script for script, is_data in zip(page.scripts, data, strict=True) if not is_data]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in run]
    assert len(run) == 2
    assert policy.startswith("default-src 'none'; script-src ")
    assert re.findall(r"'sha256-([^']+)'", policy) == hashes
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert not re.search(r"\son\w+=", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))


def test_two_modes_and_ten_networks_stay_under_two_megabytes(full: tuple[str, Page]) -> None:
    text, _ = full
    assert len(text.encode()) < 2_000_000


def test_the_summary_of_one_mode_says_the_ceilings_in_a_sentence(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [*fma_trials("r"), *stream_trials("r")])
    _, one = write(tmp_path)
    assert (
        "2c (2 CPU cores, clocks as found) computes at most 128.0 ± 0.2 GFLOP/s in fp32 and "
        "64.00 ± 0.07 GFLOP/s in fp64 and moves up to 16.00 ± 0.05 GB/s to and from main memory: "
        "below 8.00 FLOP per byte, a layer in fp32 is bound by memory."
    ) in one.text


def test_tables_have_captions_and_scoped_headers(full: tuple[str, Page]) -> None:
    _, page = full
    n_tables = sum(tag == "table" for tag, _ in page.tags)
    assert n_tables > 10
    assert sum(tag == "caption" for tag, _ in page.tags) == n_tables
    assert {attrs.get("scope") for tag, attrs in page.tags if tag == "th"} == {"col", "row"}
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))


def test_every_chart_has_a_description_and_a_still_picture(full: tuple[str, Page]) -> None:
    text, page = full
    # two modes of a plain machine, without a meter and with networks of one batch
    assert list(specs(page)) == [
        *("roofline", "roof-shares", "layer-classes", "layers", "staircase", "chains")
    ]
    assert all(len(str(spec["description"])) > 30 for spec in specs(page).values())
    stills = re.findall(r'<noscript><img class="still" src="data:image/svg\+xml,([^"]+)"', text)
    assert len(stills) == 6
    pictures = [ElementTree.fromstring(unquote(still)) for still in stills]  # noqa: S314 - ours
    assert all(picture.tag.endswith("svg") for picture in pictures)
    assert all(len(list(picture.iter())) > 30 for picture in pictures)


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    runs = write_two_modes(tmp_path)
    assert write(runs)[0] == write(runs)[0]


def test_hostile_names_come_out_as_text(tmp_path: Path) -> None:
    on = machine(HOSTILE)
    rejected = msgspec.structs.replace(
        trial("r", "read", 1e9, working_set_bytes=17_000),
        rejected_reason=(HOSTILE,),
        traffic_counting=HOSTILE,
    )
    run = manifest("r", on=on, meters_missing={HOSTILE: HOSTILE})
    run = msgspec.structs.replace(run, versions={HOSTILE: HOSTILE}, profile=HOSTILE)
    write_run(tmp_path / "r", run, [*fma_trials("r"), *stream_trials("r"), rejected])
    (tmp_path / "<b>stray").mkdir()
    odd = layer(1, 10**9, 10**6, name=HOSTILE, op_type=HOSTILE)
    write_scores(tmp_path, [score(HOSTILE, [layer(0, 10**9, 10**8), odd])])
    text, page = write(tmp_path)
    assert HOSTILE not in text
    assert "img" not in {tag for tag, _ in page.tags}
    assert "b" not in {tag for tag, _ in page.tags}
    assert page.text.count(HOSTILE) >= 8
    rows = [row for name in specs(page) for row in chart_rows(page, name)]
    names = {row["network"] for row in rows if "network" in row}
    assert names == {HOSTILE}  # the charts' data says it as it is, once decoded


def test_control_and_direction_characters_are_escaped(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), fma_trials("r"))
    write_scores(tmp_path, [score("safe\u202egnp.exe\x1b[2J", [layer(0, 1, 1)])])
    text, page = write(tmp_path)
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "safe\\u202egnp.exe\\x1b[2J" in page.text


def test_without_networks_it_says_how_to_add_one(tmp_path: Path) -> None:
    _, page = write(write_two_modes(tmp_path))
    assert "No network was scored yet." in page.text
    assert "mansard bench model.onnx" in page.text


def test_without_main_memory_times_are_unknown_with_a_reason(tmp_path: Path) -> None:
    trials = [*fma_trials("r"), *stream_trials("r", Ceilings(levels={"L1": 256e9}))]
    write_run(tmp_path / "r", manifest("r"), trials)
    write_scores(tmp_path, [score("net", [layer(0, 128 * 10**6, 10**6)])])
    _, page = write(tmp_path)
    assert "its main memory bandwidth is unknown" in page.text
    assert "unknown, at least 1.00 ms" in page.text  # 0.128 GFLOP at 128 GFLOP/s
    assert "Networks that are not drawn: 1 " in page.text


@pytest.mark.parametrize("kernel", ["fma", "read"])
def test_one_kernel_is_enough_for_a_page(tmp_path: Path, kernel: str) -> None:
    trials = [row for row in (*fma_trials("r"), *stream_trials("r")) if row.kernel == kernel]
    write_run(tmp_path / "r", manifest("r"), trials)
    write_scores(tmp_path, [score("net", [layer(0, 10**9, 10**6)])])
    _, page = write(tmp_path)
    assert "unknown" in page.text


def test_a_run_without_a_single_trial_is_still_a_page(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r", n_trials=9), [])
    _, page = write(tmp_path)
    assert "0 of 9 trials were measured" in page.text


def test_unstable_and_empty_trials_are_listed(tmp_path: Path) -> None:
    unstable = trial("r", "fma", 128e9, fma_per_element=64, stability="unstable")
    empty = trial("r", "triad", 1e9, spread=())
    write_run(tmp_path / "r", manifest("r"), [unstable, empty])
    _, page = write(tmp_path)
    assert "Trials that did not settle" in page.text
    assert "fma fp32, 64 per element" in page.text
    assert "triad fp32, 16 KiB: no repetition was accepted, 1 were rejected" in page.text


def test_missing_meters_are_named(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), fma_trials("r"))
    text, page = write(tmp_path)
    assert "rapl: /sys/class/powercap/intel-rapl:0/energy_uj is missing" in page.text
    assert "No energy roofline: it needs a power meter" in page.text
    assert "<code>mansard doctor</code>" in text


def test_a_folder_where_the_page_belongs(tmp_path: Path) -> None:
    dataset = ingest(write_two_modes(tmp_path))
    (tmp_path / "report.html").mkdir()
    with pytest.raises(StorageError, match=r"report\.html"):
        write_report(dataset, tmp_path / "report.html")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".report")]


def test_safe_json_cannot_end_its_element() -> None:
    text = safe_json({"name": "</script><!--&"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"name": "</script><!--&"}
