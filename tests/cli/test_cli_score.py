"""``mansard score`` of several files, several batches, decoders, and its page."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.cli.counting.score import score_rows
from mansard.estimator import Given, Settings, load, score_loaded, totals, zoo
from tests.cli.in_process import mansard
from tests.waiting import awaited


def scored(*arguments: object) -> subprocess.CompletedProcess[str]:
    return mansard("score", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    (models / "inner").mkdir(parents=True)
    zoo.write("squeezenet1_1", models)
    zoo.write("lstm", models / "inner")
    return models


def test_several_batches_are_scored_from_one_load(tmp_path: Path) -> None:
    zoo.write("alexnet", tmp_path)
    done = scored(tmp_path / "alexnet.onnx", "--batch", "1,8", "--batch", "32", "--json")
    scores = json.loads(done.stdout)["scores"]
    assert [each["score"]["batch"] for each in scores] == [1, 8, 32]
    macs = [each["totals"]["macs"] for each in scores]
    assert macs == [714_188_480 * batch for batch in (1, 8, 32)]


def test_several_precisions_are_scored_at_each_batch(tmp_path: Path) -> None:
    zoo.write("alexnet", tmp_path)
    options = ("--precision", "fp16,fp32", "--batch", "1,8", "--json")
    scores = json.loads(scored(tmp_path / "alexnet.onnx", *options).stdout)["scores"]
    assert [(each["score"]["precision"], each["score"]["batch"]) for each in scores] == [
        *(("fp16", 1), ("fp16", 8), ("fp32", 1), ("fp32", 8))
    ]
    half, _, single, _ = (each["totals"]["weight_bytes"] for each in scores)
    # 61,100,840 parameters of 2 and of 4 bytes
    assert (half, single) == (122_201_680, 244_403_360)


def test_a_name_of_the_zoo_is_a_model_and_an_open_batch_is_one(tmp_path: Path) -> None:
    path = zoo.write("alexnet", tmp_path)
    by_name, by_file = (
        json.loads(scored(model, "--json").stdout)["scores"] for model in ("alexnet", path)
    )
    # As many multiply-adds as torch counts for one image.
    assert [each["totals"]["macs"] for each in by_name + by_file] == [714_188_480] * 2
    assert [each["score"]["batch"] for each in by_name + by_file] == [1, 1]
    # A recurrent network's usual length; one that is given counts more.
    usual, given = (
        json.loads(scored("lstm", *more, "--json").stdout)["scores"][0]["score"]["dimensions"]
        for more in ((), ("--dim", "sequence=4"))
    )
    assert usual == {**given, "sequence": dict(zoo.entry("lstm").dims)["sequence"]}
    assert given["sequence"] == 4
    done = scored("alexnt")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "did you mean alexnet?" in done.stderr


def test_a_folder_is_scored_with_its_folders(folder: Path) -> None:
    done = scored(folder, "--batch", "1", "--dim", "sequence=4", "--jobs", "2", "--format", "csv")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert {row["model"] for row in rows} == {"squeezenet1_1", "lstm"}
    assert "2 of 2" in done.stderr


def test_one_broken_file_stops_no_other(folder: Path) -> None:
    (folder / "broken.onnx").write_bytes(b"\x08\x08")
    done = scored(folder, "--batch", "1", "--dim", "sequence=4", "--jobs", "1", "--format", "csv")
    assert done.returncode == 1
    assert {row["model"] for row in csv.DictReader(io.StringIO(done.stdout))} == {
        "squeezenet1_1",
        "lstm",
    }
    assert "broken.onnx" in done.stderr


def test_a_name_that_no_file_knows_is_wrong_usage(folder: Path) -> None:
    done = scored(folder, "--batch", "1", "--dim", "sequence=4,nothing=3")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'nothing'" in done.stderr.splitlines()[-1]


def test_a_folder_without_models(tmp_path: Path) -> None:
    done = scored(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "holds no .onnx file" in done.stderr


def test_the_page_holds_every_network_and_nothing_from_outside(folder: Path) -> None:
    page = folder / "page.html"
    done = scored(folder, "--batch", "1", "--dim", "sequence=4", "--html", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "Work of 2 networks" in text
    assert "squeezenet1_1, batch 1" in text
    assert 'src="http' not in text
    assert 'href="http' not in text
    assert "default-src &#39;none&#39;" in text


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    zoo.write("squeezenet1_1", tmp_path)
    hostile = tmp_path / "<img src=x onerror=alert(1)>.onnx"
    shutil.move(tmp_path / "squeezenet1_1.onnx", hostile)
    page = tmp_path / "page.html"
    assert scored(hostile, "--batch", "1", "--html", page).returncode == 0
    assert "<img src=x" not in page.read_text()
    assert "&lt;img src=x onerror=alert(1)&gt;" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch", "0"], "--batch"),
        (["--batch", "1,,2"], "--batch"),
        (["--dim", "a"], "--dim"),
        (["--dim", "a=1x"], "--dim"),
        (["--trip", "loop"], "--trip"),
        (["--value", "sr=now"], "--value"),
        (["--shape", "x=1x?"], "--shape"),
        (["--cache", "much"], "4MiB"),
        (["--runs", "runs"], "--html"),
        (["--recompute"], "--phase training"),
        (["--optimizer", "adam"], "--phase training"),
    ],
)
def test_an_option_that_is_not_understood(arguments: list[str], words: str) -> None:
    done = scored("a.onnx", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_a_board_names_its_cache(tmp_path: Path) -> None:
    zoo.write("alexnet", tmp_path)
    path = tmp_path / "alexnet.onnx"
    by_name = json.loads(scored(path, "--batch", "1", "--cache", "agx-orin", "--json").stdout)
    by_size = json.loads(scored(path, "--batch", "1", "--cache", "4MiB", "--json").stdout)
    assert by_name == by_size
    assert by_name["scores"][0]["score"]["cache_bytes"] == 4 << 20


def test_the_table_tells_scores_of_one_network_apart(tmp_path: Path) -> None:
    zoo.write("gpt2", tmp_path)
    loaded = load(tmp_path / "gpt2.onnx")
    stages = [
        score_loaded(loaded, Settings(Given(1, {"sequence": new, "past_sequence": past})))
        for new, past in ((8, 0), (1, 8))
    ]
    columns, rows = score_rows(stages)
    shown = [dict(zip(columns, row, strict=True)) for row in rows]
    assert [row["dimensions"] for row in shown] == [
        "sequence 8, past_sequence 0",
        "sequence 1, past_sequence 8",
    ]
    # keys and values of 12 layers, 768 floats a token: 8 tokens, and 9
    assert [row["KV cache (MB)"] for row in shown] == ["0.5898", "0.6636"]
    assert "cached (MB)" not in columns


def test_the_table_shows_what_passes_a_cache(tmp_path: Path) -> None:
    zoo.write("alexnet", tmp_path)
    loaded = load(tmp_path / "alexnet.onnx")
    scores = [score_loaded(loaded, Settings(Given(batch), cache_bytes=4 << 20)) for batch in (1, 2)]
    columns, rows = score_rows(scores)
    shown = [dict(zip(columns, row, strict=True)) for row in rows]
    cached = [totals(score).cached_traffic_bytes or 0 for score in scores]
    assert [row["cached (MB)"] for row in shown] == [f"{n_bytes / 1e6:.4g}" for n_bytes in cached]
    assert all(cached)
    assert "dimensions" not in columns  # the batch has a column of its own
    assert "KV cache (MB)" not in columns


def test_a_file_that_is_no_decoder_is_named(folder: Path) -> None:
    done = scored(folder / "squeezenet1_1.onnx", "--batch", "1", "--decode", "8")
    assert (done.returncode, done.stdout) == (2, "")
    assert "squeezenet1_1.onnx: the network does not look like a decoder" in done.stderr


def test_an_interrupt_leaves_no_process_behind(folder: Path) -> None:
    for number in range(40):
        shutil.copy(folder / "squeezenet1_1.onnx", folder / f"copy-{number}.onnx")
    command = [sys.executable, "-m", "mansard.cli", "score", str(folder), "--batch", "1"]
    running = subprocess.Popen(
        [*command, "--dim", "sequence=4", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stderr is not None
    running.stderr.readline()  # the first file is done: processes are there
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (130, "")
    assert "interrupted" in err
    # The last ones end when they see that the first is gone.
    group = ["pgrep", "-g", str(running.pid)]
    assert awaited(lambda: not subprocess.run(group, capture_output=True, check=False).stdout)


def test_work_of_integers_is_counted_in_operations(tmp_path: Path) -> None:
    zoo.write("squeezenet1_1", tmp_path)
    model = tmp_path / "squeezenet1_1.onnx"
    in_int8 = scored(model, "--precision", "int8", "--layers").stdout
    assert "FLOP" not in in_int8
    for title in ("GMAC", "GOP", "MOP", "OP/byte"):
        assert title in in_int8
    in_fp16 = scored(model, "--precision", "fp16", "--layers").stdout
    for title in ("GMAC", "GFLOP", "MFLOP", "FLOP/byte"):
        assert title in in_fp16
    assert "GOP" not in in_fp16


def test_the_table_says_how_caches_grow_and_what_all_memory_is(tmp_path: Path) -> None:
    zoo.write("gpt2", tmp_path)
    path = tmp_path / "gpt2.onnx"
    for update, word in (("in-place", "in place"), ("copied", "copied")):
        found = json.loads(scored(path, "--decode", "8", "--kv-cache", update, "--json").stdout)
        score, sums = found["scores"][0]["score"], found["scores"][0]["totals"]
        assert score["kv_cache_update"] == update
        parts = sums["weight_bytes"], score["peak_activation_bytes"], score["kv_cache_bytes"]
        assert sums["memory_bytes"] == sum(parts)
        shown = scored(path, "--decode", "8", "--kv-cache", update).stdout
        assert re.search(rf"KV cache +{word}", shown)
        for name, flop_per_byte in (("traffic", "intensity"), ("fused", "fused_intensity")):
            assert re.search(rf"FLOP/byte, {name} +{sums[flop_per_byte]:.4g}", shown)
        assert re.search(rf"sum \(MB\) +{sums['memory_bytes'] / 1e6:.4g}", shown)


def test_titles_tell_the_tables_of_layers_apart_and_keep_the_multiply_adds(tmp_path: Path) -> None:
    zoo.write("squeezenet1_1", tmp_path)
    model = tmp_path / "squeezenet1_1.onnx"
    out = scored(model, "--batch", "1,8", "--layers", "--phase", "training").stdout
    for batch in (1, 8):
        title = f"Layers of squeezenet1_1 (batch {batch}, fp32, training); hidden: "
        assert out.count(title) == 1
    assert "neither" not in out
    # Only inference has fused traffic and a sum of its memory.
    assert not re.search(r"unknown|fused|group", out)
    heads = [line for line in out.splitlines() if line.startswith("layer ")]
    assert len(heads) == 2
    assert all("MMAC" in head and "MFLOP" in head for head in heads)
    # What the rows have in common is a value with its unit: 1.235 million parameters.
    assert "params 1.235 M" in " ".join(out.split())


def test_an_inference_table_of_layers_has_multiply_adds_and_bytes(tmp_path: Path) -> None:
    zoo.write("squeezenet1_1", tmp_path)
    out = scored(tmp_path / "squeezenet1_1.onnx", "--layers").stdout
    (head,) = [line for line in out.splitlines() if line.startswith("layer ")]
    assert "MMAC" in head
    left_out = next(line for line in out.splitlines() if line.startswith("Left out: "))
    assert "MMAC" not in left_out


def test_a_note_of_several_networks_is_printed_once(tmp_path: Path) -> None:
    for name in ("alexnet", "squeezenet1_1"):
        zoo.write(name, tmp_path)
    done = scored(tmp_path, "--phase", "training", "--batch", "1,8")
    notes = [line for line in done.stderr.splitlines() if "BatchNormalization" in line]
    assert len(notes) == 1
    assert notes[0].startswith("note: alexnet, squeezenet1_1: the file has no BatchNormalization")
