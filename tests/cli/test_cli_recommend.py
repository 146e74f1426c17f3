"""``mansard recommend``: from runs and limits to a mode, its neighbours and its commands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from mansard.cli.__main__ import run
from tests.analytics.board_runs import write_board
from tests.analytics.factory import measurement, write_networks, write_two_modes
from tests.cli.cells import row
from tests.cli.decide_runs import CLOCKS, answer, document, latency_ms, power_w, published_runs
from tests.estimator.models import text_model


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_runs(tmp_path_factory.mktemp("published") / "runs")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One and two cores of a CPU: 64 and 128 GFLOP/s, 12.8 and 16 GB/s, no meter."""
    return write_two_modes(tmp_path_factory.mktemp("measured") / "runs")


def test_imported_times_give_the_least_energy_mode(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "recommend", "--runs", published, "--default", "gpu400-emc3200")
    (one,) = found["recommendations"]
    energies = {
        f"gpu{gpu}-emc{emc}": 1e-3 * latency_ms(gpu, emc) * power_w(gpu, emc) for gpu, emc in CLOCKS
    }
    best = min(energies, key=lambda mode: energies[mode])
    assert one["verdict"] == "feasible"
    assert one["choice"]["mode"] == best
    assert one["choice"]["energy_j"] == pytest.approx(energies[best], rel=0.05)
    assert [saving["mode"] for saving in one["savings"]] == ["gpu1200-emc3200", "gpu400-emc3200"]


def test_limits_have_units_and_are_kept(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("recommend", "seen", "--runs", published, "--minimise", "latency")
    found = document(capsys, *arguments, "--max-power", "9000mW")
    (one,) = found["recommendations"]
    assert one["choice"]["power_w"] <= 9
    assert one["checks"][0]["limit"] == 9.0
    # 1200 MHz takes 13 W and more: it is faster, and the limit is why it lost.
    lost = {each["candidate"]["mode"]: each["why_lost"] for each in one["neighbours"]}
    assert "breaks the limit on power" in lost["gpu1200-emc3200"]


def test_all_lists_every_candidate(published: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = answer(capsys, "recommend", "seen", "--runs", published)[1]
    assert "of 9 candidates, --all has the rest" in short
    every = answer(capsys, "recommend", "seen", "--runs", published, "--all")[1]
    assert "candidates" not in every.partition("\n")[0]
    for gpu, emc in CLOCKS:
        assert f"\ngpu{gpu}-emc{emc} " in every
    limited = ("--max-latency", "1ms", "--all")  # the quickest takes 2.9 ms: none meets it
    nearest = answer(capsys, "recommend", "seen", "--runs", published, *limited)[1]
    for gpu, emc in CLOCKS:
        assert f"\ngpu{gpu}-emc{emc} " in nearest


def test_modes_that_nobody_measured_are_predicted_from_a_table(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "modes.csv"
    table.write_text("mode,gpu_mhz,memory_mhz\nnew,1000,2400\n", encoding="utf-8")
    (one,) = document(
        capsys, "recommend", "--runs", published, "--minimise", "latency", "--mode", table
    )["recommendations"]
    assert one["choice"]["mode"] == "new"
    # 2000 / 1000 + 4000 / 2400 = 3.667 ms
    assert one["choice"]["latency_s"] == pytest.approx(3.667e-3, rel=0.01)
    assert not one["choice"]["is_extrapolated"]


def test_a_jetson_elsewhere_gets_commands_that_set_the_mode_s_clocks(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = document(capsys, "recommend", "--runs", published)["recommendations"]
    set_lines = one["commands"]["set_lines"]
    # No mode of nvpmodel is called so.
    assert not any("nvpmodel -" in line for line in set_lines)
    gpu_hz = int(one["choice"]["mode"].removeprefix("gpu").partition("-")[0]) * 1_000_000
    assert f"echo {gpu_hz} | sudo tee /sys/class/devfreq/*g[apv]*/max_freq" in set_lines
    assert any(line.startswith('echo "$was_gpu"') for line in one["commands"]["undo_lines"])


def test_infeasible_limits_are_answered_and_are_no_error(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = answer(
        capsys, "recommend", "--runs", published, "--max-latency", "1ms", "--max-power", "5W"
    )
    assert code == 0
    assert "No mode meets the 1 ms and 5 W limits for seen." in out
    assert "nearest to the limits" in out


def test_a_cpu_without_a_meter_is_asked_for_its_fastest_mode(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("recommend", "resnet18", "--runs", measured, "--minimise", "latency")
    (one,) = document(capsys, *arguments)["recommendations"]
    assert one["choice"]["mode"] == "2c"
    assert one["choice"]["energy_j"] is None
    assert one["commands"]["set_lines"] == ["taskset -c 0,1 PROGRAM"]
    assert one["commands"]["undo_lines"] == []
    # Nobody asked for the least energy: the fastest is the answer, and it is said.
    (default,) = document(capsys, "recommend", "resnet18", "--runs", measured)["recommendations"]
    assert (default["minimise"], default["choice"]["mode"]) == ("latency", "2c")
    assert any(note.startswith("energy is known in none of 2 modes") for note in default["notes"])
    energy_only = ("recommend", "resnet18", "--runs", measured, "--minimise", "energy")
    (energy,) = document(capsys, *energy_only, expected_code=1)["recommendations"]
    assert energy["verdict"] == "unknown"
    assert energy["choice"] is None


def test_many_networks_are_one_table(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("alexnet", "resnet18", "squeezenet1_1", "mobilenet_v2", "googlenet")
    code, out, err = answer(
        capsys, "recommend", *names, "--runs", measured, "--minimise", "latency"
    )
    assert code == 0
    assert "verdict feasible" in " ".join(out.split())
    assert all(name in out for name in names)
    assert "name at most 4 networks" in err


def test_what_was_measured_counts_and_predictions_are_scaled_to_it_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_two_modes(tmp_path / "runs")
    question = ("recommend", "alexnet", "--runs", runs, "--minimise", "latency")
    (plain,) = document(capsys, *question)["recommendations"]
    seconds = 1.5 * plain["choice"]["latency_s"]
    row = measurement("nets-2c", (seconds,) * 9, model="alexnet", model_hash="a" * 64)
    write_networks(runs, [row])
    (unscaled,) = document(capsys, *question)["recommendations"]
    assert (plain["choice"]["source"], plain["n_measured"]) == ("modelled", 0)
    assert unscaled["choice"]["latency_s"] == pytest.approx(seconds)
    assert (unscaled["choice"]["source"], unscaled["n_measured"]) == ("measured", 1)
    assert "measured in 1 of 2 modes, this one included" in unscaled["why"]
    (scaled,) = document(capsys, *question, "--calibrate")["recommendations"]
    assert scaled["choice"]["latency_s"] == pytest.approx(seconds)
    assert "calibrated" not in answer(capsys, *question)[2]
    # |1 / 1.5 − 1| is a third
    said = answer(capsys, *question, "--calibrate")[2]
    assert "calibrated by 1 measured time: median error 33.3% before" in said
    assert "one network was measured" in said


def test_batches_are_tried_and_every_one_is_kept_to_the_limit(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = document(
        capsys, "recommend", "alexnet", "--runs", measured, "--minimise", "latency",
        "--batch", "auto", "--min-fps", "30",
    )["recommendations"]  # fmt: skip
    assert one["n_candidates"] == 14  # seven batch sizes in two modes
    assert one["choice"]["batch"] / one["choice"]["latency_s"] >= 30


def test_a_workload_gets_one_mode_for_all(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = tmp_path / "mix.toml"
    workload.write_text('[[network]]\nmodel = "seen"\nrate = "100/s"\n', encoding="utf-8")
    (one,) = document(capsys, "recommend", "--runs", published, "--workload", workload)["mixes"]
    assert one["keeps_up"] == 1.0
    assert one["one_mode"]["busy"] <= 1
    assert one["one_mode"]["shares"][0]["rate_per_s"] == 100.0
    code, out, _ = answer(capsys, "recommend", "--runs", published, "--workload", workload)
    assert code == 0
    assert "One mode: " in out
    assert "  set:  " in out
    assert "  undo: " in out
    assert one["commands"]["set_lines"]
    workload.write_text('[[network]]\nmodel = "seen"\nrate = "9000/s"\n', encoding="utf-8")
    code, out, _ = answer(capsys, "recommend", "--runs", published, "--workload", workload)
    assert code == 0
    assert "No mode keeps up" in out


def test_a_mix_says_its_powers_and_what_its_roofs_leave_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = write_board(tmp_path / "runs")
    workload = tmp_path / "mix.toml"
    workload.write_text('[[network]]\nmodel = "alexnet"\nrate = "1/s"\n', encoding="utf-8")
    asked = ("recommend", "--runs", runs, "--workload", workload)
    plan = document(capsys, *asked)["mixes"][0]["one_mode"]
    assert plan["idle_w"] < plan["power_w"]
    out = answer(capsys, *asked)[1].replace("\u00a0", " ")
    source = r"constant power of the energy fit: clocks held at the mode's caps, no work"
    line = rf"^  idle power (\S+) W \({source}\), mean power at least (\S+) W$"
    (powers,) = re.findall(line, out, re.MULTILINE)
    assert float(powers[0]) == pytest.approx(plan["idle_w"], rel=0.01)
    assert float(powers[1]) == pytest.approx(plan["power_w"], rel=0.01)
    assert "% of the time (by the roofs alone)" in out
    # The least by the roofs, and the most by the longest times that are recorded over them.
    (ends,) = re.findall(r"expected to keep up, busy for ([0-9.]+) % to ([0-9.]+) % of", out)
    assert float(ends[0]) < float(ends[1]) < 100
    assert "  commands: unknown, whether the mode keeps up is known by its roofs alone" in out
    assert re.search(r"expected to keep up$", out, re.MULTILINE)
    assert "set:" not in out
    idle = next(line for line in out.splitlines() if line.startswith("(idle)"))
    assert not idle.rstrip().endswith("W")
    assert "  set:  " in out or "  commands: unknown, " in out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no network"),
        ("netwrok = 1\n", "unknown key 'netwrok'"),
        ("[[network]]\nmodel = 'seen'\n", "needs a model and a rate"),
        ("[[network]]\nmodel = 'seen'\nrate = 30\n", "rate = 30 has no unit"),
        ("[[network]]\nmodel = 'seen'\nrate = '30ms'\n", "has the unit 'ms'"),
        (
            "switch = 5\n[[network]]\nmodel = 'seen'\nrate = '3/s'\n",
            'switch = 5 has no unit; write switch = "5ms"',
        ),
        ("[[network]]\nmodel = 5\nrate = '3/s'\n", "model = 5 is not text"),
        ("[[network]]\nmodel = 'seen'\nrate = '3/s'\nbatch = 0\n", "batch 0 is not a size"),
        ("[[network]]\nmodel = 'seen'\nrate = '3/s'\nbatches = 1\n", "unknown key 'batches'"),
        ("[network\n", "is not TOML"),
    ],
)
def test_a_workload_with_a_mistake_is_one_line(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    workload = tmp_path / "mix.toml"
    workload.write_text(text, encoding="utf-8")
    code, out, err = answer(capsys, "recommend", "--runs", published, "--workload", workload)
    assert (code, out) == (1, "")
    assert says in err
    assert err.count("\n") == 1


def check_refused(
    capsys: pytest.CaptureFixture[str], runs: Path, options: list[str], says: str
) -> None:
    """``recommend`` with ``options`` is wrong use, which one line says."""
    code, out, err = answer(capsys, "recommend", "--runs", runs, *options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--max-latency", "20"],
            "--max-latency '20' has no unit; write 20ms; units are s, ms, us",
        ),
        (["--max-power", "30 watts"], "has the unit 'watts'"),
        (["--max-energy", "0J"], "bounds nothing"),
        (["--max-energy", "-1J"], "is not a valid energy"),
        (["--min-fps", "many"], "is not a valid rate"),
        (["--batch", "0"], "holds no size"),
        (["--precision", "fp12"], "unknown precision 'fp12'"),
        (["--device", "Xavier"], "no device is called 'Xavier'; there are Jetson Madeup"),
        (["--default", "15W"], "no mode is called '15W'"),
        (["sene"], "no network or language model is called 'sene'"),
        (["--board", "no-such-root"], "'no-such-root' is not a folder"),
        (
            ["bert_base", "--dim", "sequnce=256"],
            "--dim 'sequnce' is of no network here; there is sequence; the batch is given",
        ),
        (["alexnet", "--dim", "batch=8"], "there is none; the batch is given with --batch"),
        (["--workload", "mix.toml", "--default", "15W"], "--workload excludes --default"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    published: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    check_refused(capsys, published, options, says)


def test_modes_of_the_runs_can_be_named_away_from_the_board(
    published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("recommend", "seen", "--runs", published, "--minimise", "latency")
    names = "gpu400-emc3200, gpu800-emc800"
    (one,) = document(capsys, *arguments, "--mode", names)["recommendations"]
    # 2 s / 400 + 4 s / 3200 = 6.25 ms; 2 s / 800 + 4 s / 800 = 7.5 ms
    assert one["choice"]["mode"] == "gpu400-emc3200"
    assert one["choice"]["latency_s"] == pytest.approx(6.25e-3)
    assert one["n_candidates"] == 2
    code, _, err = answer(capsys, *arguments, "--mode", f"{names},other")
    assert code == 2
    assert "unknown power mode" in err


def test_neighbours_outside_the_measured_clocks_are_marked(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "modes.csv"
    table.write_text("mode,gpu_mhz,memory_hz\nin,1000,2.4e9\nbeyond,2400,2.4e9\n", encoding="utf-8")
    arguments = ("recommend", "seen", "--runs", published, "--mode", table)
    code, out, _ = answer(capsys, *arguments, "--minimise", "latency")
    assert code == 0
    assert row(out, "beyond")[-1].startswith("recommended; tie; outside")
    assert "clocks outside the measured range: measure before use" in out


def test_a_batch_that_cannot_be_is_named_itself(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = answer(
        capsys, "recommend", "alexnet", "--runs", measured, "--batch", "99999999999"
    )
    assert (code, out) == (1, "")
    assert "must be given" not in err  # which is what the file says without any batch
    assert err.count("\n") == 1


def test_without_a_meter_the_way_out_is_not_what_was_asked_already(
    measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("recommend", "alexnet", "--runs", measured, "--max-power", "30W")
    asked = (*arguments, "--minimise", "latency")
    (one,) = document(capsys, *asked, expected_code=1)["recommendations"]
    assert "the power of every mode is unknown" in one["sentence"]
    assert "or leave out limits of power and energy" in one["sentence"]
    asked = (*arguments, "--minimise", "energy")
    (one,) = document(capsys, *asked, expected_code=1)["recommendations"]
    assert "or minimise latency and leave out limits" in one["sentence"]


def imported(folder: Path, table: str, device: str, *options: str) -> Path:
    """A folder of runs with one table."""
    path = folder / "table.csv"
    path.write_text(table, encoding="utf-8")
    runs = folder / "runs"
    arguments = ["import", str(path), "--citation", "made up", "--device", device, *options]
    assert run([*arguments, "--runs", str(runs)]) == 0
    return runs


def test_a_network_on_a_cpu_gets_a_time_from_its_clock_in_other_modes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 25W runs the CPU at 1344 MHz, 15W at 1497.6: at most 87.8 · 1497.6 / 1344 = 97.8 ms.
    table = "mode,network,batch,latency_ms\n15W,net,1,87.8\nMAXN_SUPER,net,1,77.76\n"
    runs = imported(tmp_path, table, "Jetson Orin Nano 8GB Super", "--processor", "cpu")
    modes = "15W,25W,MAXN_SUPER"
    arguments = ("recommend", "net", "--runs", runs, "--mode", modes, "--minimise", "latency")
    (one,) = document(capsys, *arguments, "--max-latency", "100ms")["recommendations"]
    assert (one["verdict"], one["n_candidates"], one["choice"]["mode"]) == (
        "feasible",
        3,
        "MAXN_SUPER",
    )
    # Whether 25W keeps 100 ms is not known.
    assert one["claim"] == "is fastest of the modes known to meet the limit"
    (near,) = document(
        capsys, "recommend", "net", "--runs", runs, "--mode", "25W", "--max-latency", "1ms"
    )["recommendations"]
    choice = near["choice"]
    assert choice["interval"] == "bounds"
    assert 0.0778 / 1.17 < choice["latency_low_s"] < 0.0778
    assert 0.0978 < choice["latency_high_s"] < 0.0979 * 1.17


def test_why_a_mode_has_no_time_is_its_own_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Of the mode "open" the table of modes leaves out the CPU clock, and of all modes the power.
    table = (
        "mode,cpu_mhz,cpus,network,batch,latency_ms\nslow,1200,4,net,1,20\nfast,1800,4,net,1,15\n"
    )
    runs = imported(tmp_path, table, "Jetson Madeup", "--processor", "cpu")
    asked = tmp_path / "modes.csv"
    asked.write_text("mode,cpu_mhz,cpus\nslow,1200,4\nmiddle,1500,4\nopen,,4\n", encoding="utf-8")
    code, out, err = answer(
        capsys,
        "recommend",
        "net",
        "--runs",
        str(runs),
        "--mode",
        str(asked),
        "--minimise",
        "latency",
    )
    assert code == 0, err
    assert "its CPU clock is unknown" in out
    assert "cpu_hz" not in out
    assert "power was measured in no mode" not in out.partition("left out")[2].partition("\n")[0]


def test_bounds_are_compared_as_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 7W is beyond the measured clocks: only bounds are known of its time, power and energy.
    lines = ["mode,gpu_mhz,emc_mhz,network,batch,latency_ms,power_w"]
    lines += ["15W,612,2133,net,1,8.74,4.27", "25W,820,3199,net,1,6.06,5.74"]
    lines += ["MAXN_SUPER,1020,3199,net,1,6.28,6.51"]
    runs = imported(tmp_path, "\n".join(lines) + "\n", "Jetson Orin Nano 8GB Super")
    modes = "7W,15W,25W,MAXN_SUPER"
    code, out, _ = answer(
        capsys, "recommend", "net", "--runs", str(runs), "--mode", modes, "--max-power", "3W", "-v"
    )
    assert code == 0
    text = out.replace("\u00a0", " ").replace("\n", " ")
    assert "W, limit 3 W: uncertain: it holds with a probability of" in text
    compared = text.partition("compared with MAXN_SUPER")[2].partition("why:")[0]
    assert compared.count(" between ") == 3
    assert not re.search(r"(energy|power|time) [×+−]", compared)


def test_an_image_without_a_batch_is_one_item(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(
        text_model(
            "g (float[3,32,32] x) => (float[1,8,30,30] y) <float[8,3,3,3] w, int64[1] z = {0}> "
            "{ u = Unsqueeze(x, z) y = Conv(u, w) }"
        )
    )
    (one,) = document(capsys, "recommend", path, "--runs", measured)["recommendations"]
    assert one["choice"]["batch"] == 1
    run(["recommend", str(path), "--runs", str(measured), "--batch", "auto", "-v"])
    said = capsys.readouterr().err
    assert "note: net: counted as batch 1: the first dimension of 'x' (3)" in said
    assert "a batch size was left out" in said


def test_runs_of_another_machine_do_not_hide_a_published_board(
    measured: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(measured, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    code, out, err = answer(capsys, "recommend", "alexnet", "--device", "orin-nano")
    assert code == 0, err
    assert "Jetson Orin Nano 8GB Super (published)" in out
    code, out, err = answer(capsys, "recommend", "alexnet", "--device", "onin")
    assert (code, out) == (2, "")
    assert "no device is called 'onin'" in err


def test_a_board_that_is_not_here_is_predicted_from_the_limits_of_its_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = answer(capsys, "-v", "recommend", "resnet18", "--device", "orin-nano")
    assert code == 0, err
    assert "Jetson Orin Nano 8GB Super (published)" in out
    assert "predicted from the hardware limits of Jetson Orin Nano 8GB Super; for another" in err
    assert "Jetson Orin Nano 4GB" in err
    assert list(tmp_path.iterdir()) == []
    # Of a module's own name there is no other.
    code, out, err = answer(capsys, "-v", "recommend", "resnet18", "--device", "orin-nano-8gb")
    assert "hardware limits of Jetson Orin Nano 8GB\n" in err
    assert "better kernels" not in out
    code, out, err = answer(capsys, "recommend", "resnet18", "--device", "xavier-nx")
    assert code == 0, err
    assert "at best" in out
    code, out, err = answer(capsys, "recommend", "resnet18", "--device", "agx-onin")
    assert (code, out) == (2, "")
    assert "'agx-onin' is not a known board; did you mean Jetson AGX Orin 64GB" in err
    (tmp_path / "runs").mkdir()  # runs of another board are not replaced
    code, out, err = answer(capsys, "recommend", "resnet18", "--device", "orin-nano")
    assert code != 0


_CAMERA = '[[network]]\nmodel = "seen"\nrate = "10/s"\n'


def test_a_workload_has_idle_powers_of_its_own(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = tmp_path / "mix.toml"
    asked = ("recommend", "--runs", published, "--workload", workload)
    workload.write_text(f'idle = "4.4W"\n{_CAMERA}', encoding="utf-8")
    (one,) = document(capsys, *asked)["mixes"]
    plan = one["one_mode"]
    assert (plan["idle_w"], plan["idle_source"]) == (4.4, "given")
    # The board is busy 10 · t of the time and draws 10 · E, else 4.4 W.
    share = plan["shares"][0]
    power_w = 10 * share["energy_j"] + (1 - 10 * share["latency_s"]) * 4.4
    assert plan["power_w"] == pytest.approx(power_w)
    assert plan["power_low_w"] < power_w < plan["power_high_w"]
    out = answer(capsys, *asked)[1].replace("\u00a0", " ")
    assert "  idle power 4.40 W (workload file), mean power " in out
    text = f'{_CAMERA}[idle]\n"gpu1200-emc3200" = "4W±5%"\ngpu400-emc800 = "9W"\n'
    workload.write_text(text, encoding="utf-8")
    (one,) = document(capsys, *asked)["mixes"]
    assert one["one_mode"]["modes"] == ["gpu1200-emc3200"]
    assert [plan["modes"] for plan in one["others"]] == [["gpu400-emc800"]]
    assert re.search(r"Not compared as single modes, .*: gpu1200-emc1600, ", one["sentence"])
    out = answer(capsys, *asked, "--minimise", "latency")[1].replace("\u00a0", " ")
    assert re.search(r"^gpu800-emc3200 .* unknown +[0-9.]+ W without idle", out, re.MULTILINE)


def test_an_idle_power_of_a_mode_that_is_not_asked_for_is_no_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    workload = '[[network]]\nmodel = "resnet18"\nrate = "5/s"\n[idle]\n7W = "3W"\n25W = "4W"\n'
    Path("camera.toml").write_text(workload, "utf-8")
    asked = ("recommend", "--workload", "camera.toml", "--device", "orin-nano", "--mode", "25W")
    code, out, err = answer(capsys, *asked, "--minimise", "latency")
    assert code == 0, err
    assert "idle power 4.00" in out.replace("\u00a0", " ")
    # Energies are unknown: nothing is found, which is no wrong use.
    assert answer(capsys, *asked, "--minimise", "power")[0] == 1


@pytest.mark.parametrize(
    ("idle", "says"),
    [
        ("idle = 4.4", "idle = 4.4 is not a power; write idle"),
        ('idle = "4.4"', "has no unit; write 30W"),
        ('idle = "much"', "is not a valid power"),
        ("idle = []", "is not a power"),
        ("[idle]", "[idle] names no mode"),
        ('[idle]\n15W = "4W"', "[idle] has the mode '15W', which is unknown; there are gpu"),
        ("[idle]\n15W = 4", "idle of 15W = 4 is not a power"),
    ],
)
def test_an_idle_power_with_a_mistake_is_one_line(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], idle: str, says: str
) -> None:
    workload = tmp_path / "mix.toml"
    is_table = idle.startswith("[")
    text = f"{_CAMERA}{idle}\n" if is_table else f"{idle}\n{_CAMERA}"
    workload.write_text(text, encoding="utf-8")
    code, out, err = answer(capsys, "recommend", "--runs", published, "--workload", workload)
    assert (code, out) == (1, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_battery_lasts_as_long_as_the_mean_power_says(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = tmp_path / "mix.toml"
    workload.write_text(f'idle = "4.4W"\n{_CAMERA}', encoding="utf-8")
    asked = ("recommend", "--runs", published, "--workload", workload, "--battery", "99Wh")
    (one,) = document(capsys, *asked, "--rest-power", "4W", "--efficiency", "80%")["mixes"]
    life, power_w = one["battery"], one["one_mode"]["power_w"]
    assert (life["capacity_j"], life["rest_w"], life["efficiency"]) == (356400.0, 4.0, 0.8)
    # 0.8 · 99 Wh · 3600 s/h = 285120 J
    assert life["duration_s"] == pytest.approx(285120 / (power_w + 4))
    assert life["duration_low_s"] < life["duration_s"] < life["duration_high_s"]
    out = answer(capsys, *asked)[1].replace("\u00a0", " ")
    hours = r"^  battery: [0-9.]+ ± [0-9.]+ h \(± of the mean power only\): "
    assert re.search(hours + r"85 % of 99 Wh at [0-9.]+ W$", out, re.MULTILINE)
    workload.write_text(_CAMERA, encoding="utf-8")
    out = answer(capsys, *asked)[1]
    assert "  battery: unknown, the idle power is unknown: add [idle] to the workload file" in out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["seen", "--battery", "99Wh"], "--battery has no effect without --workload: the mean"),
        (["--workload", "mix.toml", "--efficiency", "0.9"], "without --battery; add --battery"),
        (["--workload", "mix.toml", "--rest-power", "4W"], "without --battery; add --battery"),
        (["--workload", "mix.toml", "--battery", "99"], "has no unit; write --battery 99Wh"),
        (["--workload", "mix.toml", "--battery", "0Wh"], "bounds nothing"),
        (
            ["--workload", "mix.toml", "--battery", "9Wh", "--efficiency", "85"],
            "an efficiency of 85",
        ),
        (["--workload", "mix.toml", "--battery", "9Wh", "--rest-power", "4"], "has no unit"),
    ],
)
def test_a_battery_with_a_mistake_is_one_line(
    published: Path, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    check_refused(capsys, published, options, says)


def test_a_workload_is_answered_from_published_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "camera.toml").write_text(
        '[[network]]\nmodel = "resnet18"\nrate = "5/s"\n', "utf-8"
    )
    asked = ("recommend", "--workload", "camera.toml", "--device", "orin-nano")
    code, out, err = answer(capsys, *asked)
    assert code == 0, err
    assert "Jetson Orin Nano 8GB Super (published): one mode for all" in out
    assert "by the roofs alone" in out
    # Whether it keeps up is unknown, so --check fails.
    assert answer(capsys, *asked, "--check")[0] == 3
    code, out, err = answer(capsys, *asked, "--calibrate")
    assert (code, out) == (1, "")
    assert "mansard: the hardware limits of Jetson Orin Nano 8GB Super: --calibrate needs" in err
