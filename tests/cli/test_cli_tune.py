"""``mansard offload tune``: thresholds and power modes together."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.analytics.hierarchical_samples import made_up, write_npz
from tests.cli.decide_runs import answer, document, latency_ms, power_w, published_runs
from tests.inference.npz_files import without_data

COSTS = (
    *("--local-latency", "1ms±0", "--local-energy", "5mJ±0"),
    *("--offload-latency", "10ms±0", "--offload-energy", "20mJ±0"),
    *("--decision-latency", "1us±0", "--decision-energy", "1uJ±0"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hi")
    write_npz(folder / "samples.npz", made_up(4000))
    return folder


@pytest.fixture(scope="module")
def runs(folder: Path) -> Path:
    return published_runs(folder / "runs")


def test_the_costs_are_those_of_the_share(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(
        capsys, "offload", "tune", folder / "samples.npz", *COSTS, "--min-accuracy", "0.85"
    )
    chosen = found["chosen"]
    # 1 ms + 1 µs + share · 10 ms; 5 mJ + 1 µJ + share · 20 mJ
    assert chosen["latency"]["value"] == pytest.approx(1.001e-3 + chosen["share"] * 10e-3)
    assert chosen["energy"]["value"] == pytest.approx(5.001e-3 + chosen["share"] * 20e-3)
    by_rule = {row["rule"]: row for row in found["rules"]}
    # Never: the local run alone. Always: the offload alone. At random, each of them in its share.
    assert by_rule["never"]["latency"]["value"] == 1e-3
    assert by_rule["always"]["latency"]["value"] == 10e-3
    share = by_rule["random"]["share"]
    assert by_rule["random"]["latency"]["value"] == pytest.approx((1 - share) * 1e-3 + share * 1e-2)
    assert (by_rule["never"]["share_low"], by_rule["never"]["share_high"]) == (0.0, 0.0)
    assert by_rule["never"]["accuracy"] == found["local_accuracy"]
    assert by_rule["always"]["accuracy"] == found["remote_accuracy"]
    assert found["gain"]["low"] > 0
    assert (found["n_fit"], found["n_judged"], found["is_held_out"]) == (2000, 2000, True)


def test_the_best_threshold_is_the_least_energy_that_keeps_the_limit(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--min-accuracy", "85%", "--held-out", "0", "--rule", "threshold")
    found = document(capsys, "offload", "tune", folder / "samples.npz", *COSTS, *arguments)
    arrays = made_up(4000)
    right = arrays["predicted"] == arrays["label"]
    remote = arrays["remote"] == arrays["label"]
    order = np.argsort(arrays["p1"])
    accuracies = [(right[order[k:]].sum() + remote[order[:k]].sum()) / 4000 for k in range(4001)]
    # A limit holds in 90 % where Wilson's lower bound of 1.2816 standard errors keeps it:
    # (a + z²/2n − z √(a(1 − a)/n + z²/4n²)) / (1 + z²/n)
    z, n = 1.2815516, 4000
    kept = [
        (a + z**2 / (2 * n) - z * (a * (1 - a) / n + z**2 / (4 * n**2)) ** 0.5) / (1 + z**2 / n)
        >= 0.85
        for a in accuracies
    ]
    assert found["chosen"]["share"] == kept.index(True) / 4000
    assert found["chosen"]["accuracy"] == accuracies[kept.index(True)]
    assert [row["holds"] for row in found["chosen"]["limits"]] == ["kept"]


def test_a_calibrated_network_is_offloaded_below_one_less_beta(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "offload", "tune", folder / "samples.npz", "--beta", "0.3")
    (p1, _) = found["calibration"]
    assert not p1["is_rejected"]
    by_threshold = {
        row["threshold"]: row["cost"] for row in found["rules"] if row["rule"] == "threshold"
    }
    # The best threshold on samples of its own lies near the best of all, 1 − 0.3.
    assert 0.7 in by_threshold
    assert min(by_threshold) == pytest.approx(0.7, abs=0.1)
    assert found["chosen"]["cost"] == pytest.approx(by_threshold[0.7], abs=0.01)


def test_threshold_and_mode_are_chosen_together(
    folder: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--local", "seen", "--precision", "fp16", "--runs", runs, "--rule", "threshold")
    offload = ("--offload-latency", "40ms±2ms", "--offload-energy", "60mJ±5%")
    limits = ("--min-accuracy", "0.85", "--max-latency", "40ms")
    found = document(
        capsys, "offload", "tune", folder / "samples.npz", *arguments, *offload, *limits
    )
    assert len(found["modes"]) == 9
    kept = []
    for row in found["modes"]:
        gpu, emc = (int(part) for part in row["mode"].removeprefix("gpu").split("-emc"))
        local_s = latency_ms(gpu, emc) / 1e3
        assert row["latency"]["value"] == pytest.approx(local_s + row["share"] * 0.04, rel=1e-3)
        energy_j = local_s * power_w(gpu, emc) + row["share"] * 0.06
        assert row["energy"]["value"] == pytest.approx(energy_j, rel=1e-3)
        # Latencies of the slowest modes are more than 40 ms even where nothing is offloaded.
        if all(limit["holds"] != "broken" for limit in row["limits"]):
            kept.append((energy_j, row["mode"]))
    assert found["chosen"]["mode"] == min(kept)[1]
    assert {row["local_s"]["source"] for row in found["costs"]} == {"published"}


def test_the_larger_network_may_run_on_the_same_board(
    folder: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--local-latency", "1ms±0", "--local-energy", "1mJ±0", "--mode", "gpu1200-emc3200")
    asked = ("--offload", "seen", "--precision", "fp16", "--runs", runs, "--beta", "0.2")
    found = document(capsys, "offload", "tune", folder / "samples.npz", *given, *asked)
    (costs,) = found["costs"]
    assert costs["offload_s"]["value"] == pytest.approx(latency_ms(1200, 3200) / 1e3, rel=1e-6)
    assert (costs["local_s"]["source"], costs["offload_s"]["source"]) == ("given", "published")


def test_a_cost_that_is_given_stands_in_the_place_of_every_other(
    folder: Path, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "costs.csv"
    table.write_text("mode,local_s,offload_s\n15W,2e-3,9e-3\n", "utf-8")
    sources = (
        ("--costs", table),
        ("--local", "seen", "--precision", "fp16", "--runs", runs, "--mode", "gpu1200-emc3200"),
    )
    for source in sources:
        asked = (
            "offload",
            "tune",
            folder / "samples.npz",
            *source,
            "--local-latency",
            "7ms±0",
            "--beta",
            "0.2",
        )
        code, out, err = answer(capsys, *asked, "--json")
        assert code == 0
        (costs,) = json.loads(out)["costs"]
        assert (costs["local_s"]["value"], costs["local_s"]["source"]) == (7e-3, "given")
        assert "note: local_s as given, not as" in err


def test_a_sample_is_one_item_and_has_one_precision(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.csv"
    rows = [
        "mode,network,precision,batch,time_ms,power_w",
        "MAXN,small,fp16,1,2.0,10.0",
        "MAXN,small,fp16,8,9.0,14.0",
        "MAXN,small,int8,1,1.5,9.0",
        "MAXN,big,fp16,8,40.0,20.0",
        "MAXN,dark,fp16,1,3.0,",
    ]
    table.write_text("\n".join(rows) + "\n", "utf-8")
    runs = tmp_path / "runs"
    named = ("--citation", "made up", "--device", "Jetson Madeup", "--runs", runs)
    assert answer(capsys, "import", table, *named)[0] == 0
    asked = ("offload", "tune", folder / "samples.npz", "--runs", runs, "--beta", "0.3")
    found = document(capsys, *asked, "--local", "small", "--precision", "int8")
    (costs,) = found["costs"]
    assert costs["local_s"]["value"] == pytest.approx(1.5e-3)
    assert costs["local_j"]["value"] == pytest.approx(1.5e-3 * 9)
    (costs,) = document(capsys, *asked, "--local", "dark")["costs"]
    assert (costs["local_s"]["value"], costs["local_j"]) == (pytest.approx(3e-3), None)
    assert costs["unknown"]["local_j"] != "it was not given"
    assert "power" in costs["unknown"]["local_j"]
    code, _, err = answer(capsys, *asked, "--local", "small")
    assert code == 2
    assert "small has several precisions in MAXN; name one with --precision" in err
    code, _, err = answer(capsys, *asked, "--local", "big")
    assert code == 2
    assert "big is unknown at batch 1, and a sample is one item" in err


def test_missing_answers_bound_the_accuracy_from_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = made_up(2000)
    arrays["remote"][::2] = -1
    write_npz(tmp_path / "half.npz", arrays)
    found = document(capsys, "offload", "tune", tmp_path / "half.npz", "--beta", "0.3")
    chosen = found["chosen"]
    assert chosen["accuracy"] is None
    assert "no recorded remote answer" in chosen["unknown"]["accuracy"]
    width = chosen["accuracy_most"] - chosen["accuracy_least"]
    assert width == pytest.approx(chosen["n_unanswered"] / chosen["n"])
    assert chosen["n_unanswered"] > 0
    assert found["remote_accuracy"] is None
    _, out, _ = answer(capsys, "offload", "tune", tmp_path / "half.npz", "--beta", "0.3")
    assert "have no recorded remote answer: the accuracy is between" in out


def test_without_costs_time_and_energy_are_unknown_and_not_zero(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = document(capsys, "offload", "tune", folder / "samples.npz", "--beta", "0.3")["chosen"]
    assert (chosen["latency"], chosen["energy"]) == (None, None)
    assert (
        chosen["unknown"]["latency"] == "the latency of the local run is unknown: it was not given"
    )
    code, out, _ = answer(capsys, "offload", "tune", folder / "samples.npz", "--max-latency", "5ms")
    assert code == 0
    assert (
        "No threshold can be chosen: the latency of the local run is unknown: it was not given."
        in out
    )


def test_every_threshold_can_be_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "curve.csv"
    asked = ("offload", "tune", folder / "samples.npz", "--curve", path, "--logistic", "resnet8-fp")
    assert answer(capsys, *asked, "--local-latency", "1ms", "--offload-latency", "10ms",
                  "--decision-latency", "1us", "--rule", "published")[0] == 0  # fmt: skip
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    arrays = made_up(4000)
    score = -4.531622904031753 + 5.82555453 * arrays["p1"] - 3.59687685 * arrays["p2"]
    chance = np.unique(1 / (1 + np.exp(-score)))
    thresholds = [float(row["threshold"]) for row in rows]
    assert thresholds[1:-1] == pytest.approx(chance[1:])
    for row in rows[::500]:
        # 1 ms and 1 µs, and 10 ms of each offload.
        assert float(row["latency_s"]) == pytest.approx(1.001e-3 + float(row["share"]) * 10e-3)
        assert row["energy_j"] == ""


def test_coefficients_of_any_size_give_a_probability(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(
        capsys, "offload", "tune", folder / "samples.npz",
        "--logistic", "-1000,1,1", "--rule", "published",
        "--beta", "0.3", "--local-latency", "1ms±0",
    )  # fmt: skip
    by_rule = {(row["rule"], row["threshold"]): row["share"] for row in found["rules"]}
    # exp(999) is above the largest number of 64 bits; 1 / (1 + exp(999)) is 0.
    assert by_rule["published logistic", 0.5] == 1.0


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--minimise", "cost"), "the cost of an offload is not given"),
        (("--replay", "100"), "a replay needs the cost of an offload"),
        (("--min-accuracy", "90"), "--min-accuracy 90 is above 1"),
        (("--held-out", "1"), "a share of 1 cannot be held out"),
        (("--logistic", "1e999,1,1"), "a coefficient of more than a million decides nothing"),
        (("--logistic", "resnet9"), "no coefficients are called 'resnet9'"),
        (("--rule", "published"), "there is no rule 'published logistic' here"),
        (("--local-latency", "1ms±2ms"), "--local-latency '1ms±2ms' may be below 0"),
        (("--local-latency", "fast"), "--local-latency 'fast' is not a valid time"),
        (("--max-latency", "1s", "--probability", "1"), "a probability of 1 is never reached"),
        (
            ("--mode", "15W"),
            "--precision, --mode, --device, --board and --allow-mixed are about networks",
        ),
        (("--allow-mixed",), "are about networks of runs; give --local or --offload as well"),
        (("--judge", "s.csv", "--held-out", "0.5"), "hold out and samples to judge on exclude"),
    ],
)
def test_wrong_usage_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], fault: str
) -> None:
    code, out, err = answer(capsys, "offload", "tune", folder / "samples.npz", *arguments)
    assert (code, out) == (2, "")
    assert fault in err
    assert len(err.splitlines()) == 1


def test_broken_samples_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = made_up(10)
    arrays["p1"][6] = 1.5
    write_npz(tmp_path / "bad.npz", arrays)
    (tmp_path / "bad.csv").write_text("", encoding="utf-8")
    for name, fault in (
        ("bad.npz", "row 7: p1 is 1.5, outside 0 to 1"),
        ("bad.csv", "is empty"),
        ("none.npz", "No such file"),
        ("samples.txt", "is not a .txt table"),
    ):
        code, out, err = answer(capsys, "offload", "tune", tmp_path / name)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert fault in err


P1 = {"p1": ("<f8", (20,)), "label": ("<i8", (20,)), "predicted": ("<i8", (20,))}


@pytest.mark.parametrize(
    ("arrays", "fault"),
    [
        ({**P1, "p2": ("<f8", (1 << 27,))}, "p2 has 134,217,728 rows, the confidences have 20"),
        ({**P1, "remote": ("<i8", (20, 1 << 24))}, "remote has the shape [20, 16777216]"),
        ({**P1, "label": ("<c16", (20,))}, "label holds complex128: neither numbers nor texts"),
        ({**P1, "logits": ("|u1", (20, 1))}, "logits has the shape [20, 1]"),
        ({**P1, "p1": ("<f8", ())}, "p1 has the shape []"),
        ({"label": ("<i8", (1 << 27,))}, "has no p1"),
        ({"p1": ("|u1", (10_000_001,))}, "holds 10,000,001 samples, more than 10,000,000"),
        (
            {"logits": ("<f4", (3_000_000, 200)), "label": ("<i8", (3_000_000,))},
            # 3e6 * (200 * 4 + 8) B = 2.424e9 B = 2.26 GiB
            "its arrays take 2.3 GiB, more than the 2 GiB",
        ),
    ],
)
def test_headers_are_compared_before_any_number_is_read(
    arrays: dict[str, tuple[str, tuple[int, ...]]],
    fault: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = without_data(tmp_path / "x.npz", junk=("|u1", (1 << 31,)), **arrays)
    code, out, err = answer(capsys, "offload", "tune", path)  # else "is cut short"
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert fault in err


@pytest.mark.parametrize(
    "option", ["--min-accuracy", "--logistic", "--max-latency", "--max-energy"]
)
def test_an_empty_value_is_no_limit_that_is_left_out(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = ("--local-latency", "2ms", "--offload-latency", "40ms")
    code, _, err = answer(capsys, "offload", "tune", tmp_path / "hi.npz", *costs, option, "")
    assert (code, err.count("\n")) == (2, 1)
