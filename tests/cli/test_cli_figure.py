"""``mansard figure``, as a user types it: files, JSON, refusals."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from mansard.analytics.pages.paper.drawing import fonts_in
from mansard.cli.__main__ import run
from tests.analytics.board_runs import write_board
from tests.analytics.factory import measurement, write_networks
from tests.analytics.score_factory import layer, score, write_scores
from tests.cli.decide_runs import answer, document, published_runs
from tests.cli.test_cli_schedule import TWO


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metered board in four modes, with two networks."""
    runs = tmp_path_factory.mktemp("board") / "runs"
    write_board(runs)
    write_scores(
        runs, [score(name, [layer(0, work, 10**7)]) for name, work in (("a", 10**9), ("b", 10**10))]
    )
    return runs


def test_a_pdf_its_values_and_its_caption_named_after_device_and_mode(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("figure", "roofline", "--runs", runs, "-o", tmp_path, "--mode", "15W")
    code, out, err = answer(capsys, *words)
    assert code == 0, err
    stem = "roofline-jetson-agx-orin-64gb-15w"
    assert [Path(line).name for line in out.splitlines()] == [
        f"{stem}.pdf",
        f"{stem}.csv",
        f"{stem}.txt",
    ]
    pdf = (tmp_path / f"{stem}.pdf").read_bytes()
    assert fonts_in(pdf) == ("LiberationSans",)
    assert b"/MediaBox [0 0 252 198]" in pdf  # 3.5 in × 2.75 in
    # What Mansard drew it may draw again.
    assert answer(capsys, *words)[0] == 0


@pytest.mark.parametrize("form", ["pdf", "svg", "png", "tex"])
def test_a_file_of_the_users_stays_unless_forced(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    path = tmp_path / f"fig.{form}"
    path.write_text("mine: Drawn by Mansard or not\n", "utf-8")
    words = ("figure", "roofline", "--runs", runs, "-o", path)
    code, _, err = answer(capsys, *words)
    assert (code, path.read_text("utf-8")) == (2, "mine: Drawn by Mansard or not\n")
    assert err == (
        f"mansard: {path}: already exists and was not written by Mansard; give another name, or "
        "--force to replace it\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert answer(capsys, *words, "--force")[0] == 0
    assert answer(capsys, *words)[0] == 0


def test_values_of_the_users_stay_too(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fig.csv").write_text("part,name\n1,2\n", "utf-8")
    code, _, err = answer(capsys, "figure", "energy", "--runs", runs, "-o", tmp_path / "fig.svg")
    assert code == 2
    assert "fig.csv: already exists" in err
    assert not (tmp_path / "fig.svg").exists()


def test_json_has_the_files_and_the_caption(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = tmp_path / "fig.svg"
    found = document(capsys, "figure", "modes", "a", "--runs", runs, "-o", figure)
    assert found["files"] == [str(figure.with_suffix(end)) for end in (".svg", ".csv", ".txt")]
    assert found["caption"].startswith("Power modes, a, Jetson AGX Orin 64GB.\n")
    with (tmp_path / "fig.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["mode"] for row in rows} == {"15W", "30W", "50W", "MAXN"}
    assert all(float(row["latency_ms"]) > 0 for row in rows)


def test_sizes_and_type_are_those_that_were_asked_for(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ("--width", "177.8mm", "--height", "10cm", "--font-size", "9", "--no-title")
    path = tmp_path / "fig.svg"
    assert answer(capsys, "figure", "pareto", "--runs", runs, "-o", path, *size)[0] == 0
    text = path.read_text("utf-8")
    # 177.8 mm are 7 in, 504 pt; 10 cm 283.465 pt; 9 pt type is 12 px: 504 · 12 / 9 = 672 px
    assert 'width="504pt" height="283.465pt"' in text
    assert 'viewBox="0 0 672 377.953"' in text
    assert "Pareto front" not in text


def test_a_schedule_of_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "problem.toml").write_text(TWO, "utf-8")
    path = tmp_path / "fig.svg"
    code, _, err = answer(capsys, "figure", "gantt", tmp_path / "problem.toml", "-o", path)
    assert code == 0, err
    text = path.read_text("utf-8")
    assert "Time, ms" in text
    assert re.search(r">A a<.*>B b<", text)  # the letters of the networks
    with (tmp_path / "fig.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["accelerator"] for row in rows} == {"gpu", "dla"}


def test_bars_have_the_last_word_of_a_group_and_deadlines_the_letters_of_their_networks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ", ".join(
        f'{{name = "from layer {at}", time = {{gpu = "{ms}ms"}}}}' for at, ms in ((0, 12), (14, 3))
    )
    accelerator = '[[accelerator]]\nname = "gpu"\nkind = "gpu"\n'
    networks = "".join(
        f'[[network]]\nmodel = "{name}"\nmax_latency = "20ms"\ngroup = [{of}]\n'
        for name, of in (("a", groups), ("b", '{time = {gpu = "1ms"}}'))
    )
    (tmp_path / "problem.toml").write_text(accelerator + networks, "utf-8")
    path = tmp_path / "fig.svg"
    code, _, err = answer(capsys, "figure", "gantt", tmp_path / "problem.toml", "-o", path)
    assert code == 0, err
    words = re.findall(r"<text[^>]*>([^<]*)<", path.read_text("utf-8"))
    # Of some 330 px for 20 ms 12 ms are 198 px, 3 ms 50 px; "A from layer 14" is some 80 px wide.
    assert {"A from layer 0", "A 14", "A, B"} <= set(words)


def test_the_caption_of_the_table_has_the_citation_of_published_ceilings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "rates.csv"
    table.write_text(
        "mode,gpu_mhz,emc_mhz,precision,GFLOP/s,GB/s\nA_1,400,800,fp32,900,90\n", "utf-8"
    )
    told = ("import", str(table), "--citation", "Ü & others, 50 % of data/set_1")
    runs = tmp_path / "runs"
    assert run([*told, "--device", "Jetson Madeup", "--runs", str(runs)]) == 0
    path = tmp_path / "fig.tex"
    code, _, err = answer(capsys, "figure", "roofline", "--runs", runs, "-o", path)
    assert code == 0, err
    (caption,) = re.findall(r"\\caption\{(.*)\}$", path.read_text("utf-8"), re.MULTILINE)
    assert caption == (
        r"Ceilings of Jetson Madeup (published) in power mode A\_\allowbreak 1. "
        r"Published in: Ü \& others, 50 \% of data/\allowbreak set\_\allowbreak 1."
    )


def test_modes_that_begin_alike_have_distinct_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    modes = [f"gpu_1300MHz_emc_3199MHz_dla_{at}" for at in (1, 2, 3)]
    rows = [f"{mode},{at},800,n,fp16,1,{at},5" for at, mode in enumerate(modes, 400)]
    table = tmp_path / "table.csv"
    head = "mode,gpu_mhz,emc_mhz,network,precision,batch,time_ms,power_w"
    table.write_text("\n".join([head, *rows, ""]), "utf-8")
    told = ("import", str(table), "--citation", "made up", "--device", "Jetson Madeup")
    assert run([*told, "--runs", str(tmp_path / "runs")]) == 0
    path = tmp_path / "fig.svg"
    code, _, err = answer(capsys, "figure", "modes", "--runs", tmp_path / "runs", "-o", path)
    assert code == 0, err
    words = re.findall(r"<text[^>]*>([^<]*)<", path.read_text("utf-8"))
    # of 20 characters: 13, the ellipsis and the last six
    assert {word for word in words if word.startswith("gpu_")} == {
        f"gpu_1300MHz_e…_dla_{at}" for at in (1, 2, 3)
    }


def test_one_published_mode_has_no_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    table = folder / "table.csv"
    head, row = (
        "mode,gpu_mhz,emc_mhz,network,precision,batch,time_ms,power_w",
        "A,400,800,n,fp16,1,9,5",
    )
    table.write_text(f"{head}\n{row}\n", "utf-8")
    told = ("import", str(table), "--citation", "made up", "--device", "Jetson Madeup")
    assert run([*told, "--runs", str(folder)]) == 0
    code, _, err = answer(capsys, "figure", "pareto", "--runs", folder, "-o", tmp_path)
    assert (code, err) == (
        2,
        "mansard: the Pareto front needs two modes; measure more: "
        f"mansard bench --runs {folder} --mode all\n",
    )


def test_the_command_that_measures_roofs_names_the_folder_of_the_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my runs"
    write_networks(folder, [measurement("nets", (0.08,) * 9, model="a", model_hash="a" * 16)])
    code, _, err = answer(capsys, "figure", "roofline", "a", "--runs", folder, "-o", tmp_path)
    assert (code, err) == (
        2,
        "mansard: a ran, but no kernel was measured and no ceilings were imported; measure the "
        f"roofs: mansard bench --runs '{folder}'\n",
    )


def test_published_modes_say_where_they_were_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = published_runs(tmp_path / "runs")
    found = document(capsys, "figure", "pareto", "--runs", runs, "-o", tmp_path)
    assert "Values: published." in found["caption"]
    assert "Published in: made up." in found["caption"]
    (figure, *_) = found["files"]
    assert Path(figure).name.startswith("pareto-jetson-madeup")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--font", "No Such Font"), "no font 'No Such Font' on this machine"),
        (("-o", "fig.gif"), "'fig.gif' is not a figure file"),
        (("--width", "3.5"), "--width '3.5' is not between 1in and 30in"),
        (("--font-size", "1pt"), "--font-size '1pt' is not between 4pt and 48pt"),
        (("--device", "nothing"), "no device is called 'nothing'"),
        (("--mode", "99W"), "mode '99W' of Jetson AGX Orin 64GB GPU has no roofs"),
        (("--batch", "7"), "no network was scored with batch 7"),
        (("--fonts", "."), "--fonts has no effect without --font"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], line: str
) -> None:
    code, out, err = answer(capsys, "figure", "roofline", "--runs", runs, *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"mansard: {line}"), err
    assert err.count("\n") == 1
    assert "; " in err  # what to do


def test_a_folder_that_cannot_be_written_is_one_line(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = answer(capsys, "figure", "roofline", "--runs", runs, "-o", "/proc/fig.svg")
    assert code == 1
    assert err.startswith("mansard: /proc/fig.svg: ")
    assert err.count("\n") == 1
