"""``mansard offload``, and ``mansard offload tune`` on CIFAR files with predictions of a server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mansard.core.records import DecisionTime
from tests.analytics.factory import measurement, write_networks
from tests.analytics.offload_rows import offload_row, write_offloads
from tests.api.offload_process import free_port, serving
from tests.cli.decide_runs import answer, document
from tests.inference.cifar_files import Cifar

N = 40
KNOWN = ("--local-latency", "1ms±0", "--offload-latency", "5ms±0", "--held-out", "0")


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Cifar:
    return Cifar(tmp_path_factory.mktemp("cifar"), N)


@pytest.fixture(scope="module")
def server(cifar: Cifar) -> Iterator[str]:
    with serving(cifar.large, "--preprocess", "unit") as (address, _):
        yield address


def command(cifar: Cifar, server: str, runs: Path) -> tuple[object, ...]:
    return (
        *("offload", "run", cifar.small, "--server", server, "--data", cifar.data),
        *("--preprocess", "unit", "--threshold", "60%", "--threads", 1, "--runs", runs),
    )


def test_a_run_prints_tables_and_json(
    cifar: Cifar, server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command(cifar, server, tmp_path / "runs")
    code, out, err = answer(capsys, *words)
    assert code == 0, err
    text = out.replace("\u00a0", " ")
    for part in ("all on the server", "by the rule", "– offloaded", "body sent", "3 KiB", "1,000"):
        assert part in text
    assert "that its parts predict; its energy is unknown: no meter" in " ".join(text.split())
    found = document(capsys, *words)  # of the same rows: nothing is measured again
    (one,) = found["measured"]
    small = cifar.probabilities("small")
    is_below = small.max(axis=1) < 0.6
    answers = np.where(is_below, cifar.probabilities("large").argmax(axis=1), small.argmax(axis=1))
    assert one["accuracy"]["value"] == (answers == cifar.labels).mean()
    assert one["share"]["value"] == is_below.mean()
    assert one["energy"] is None
    code, out, err = answer(capsys, "report", "--runs", tmp_path / "runs")
    assert code == 0, err
    assert "Measured with a server" in (tmp_path / "runs/report.html").read_text("utf-8")


def test_serve_says_where_and_ends_with_an_interrupt(
    cifar: Cifar, start: Callable[..., Any]
) -> None:
    words = [sys.executable, "-m", "mansard.cli", "offload", "serve", str(cifar.large)]
    port = free_port()
    process = start([*words, "--listen", f":{port}", "--json"], stderr=subprocess.DEVNULL)
    found = json.loads(process.stdout.readline())
    assert found["address"] == f"http://127.0.0.1:{port}"
    assert (found["served"]["model"], found["served"]["n_classes"]) == ("large", 10)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130


@pytest.mark.parametrize(
    ("words", "code", "fault"),
    [
        (("serve", "resnet18"), 2, "resnet18 is not an ONNX file; networks of the zoo have no"),
        (("serve", "x.onnx", "--listen", "a b"), 2, "--listen 'a b' is not an address"),
        (("serve", "x.onnx", "--listen", ":99999"), 2, "--listen ':99999' is not an address"),
        (("serve", "cut.onnx"), 1, "cut.onnx"),
        (("run", "x.onnx", "--server", "h:1", "--data", "d.bin"), 2, "no rule says what"),
        (
            ("run", "x.onnx", "--server", "h:1", "--data", "d.bin", "--logistic", "resnet9"),
            2,
            "no coefficients are called 'resnet9'",
        ),
        (
            ("run", "x.onnx", "--server", "h:1", "--data", "d.bin", "--threshold", "nan"),
            2,
            "--threshold",
        ),
    ],
)
def test_wrong_usage_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    fault: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cut.onnx").write_bytes(b"\x08\x08\x12")
    found, out, err = answer(capsys, "offload", *words)
    assert (found, out) == (code, ""), err
    assert fault in err.splitlines()[-1]


def predictions(path: Path, classes: Any) -> Path:
    path.write_text("".join(f"{one}\n" for one in classes), "ascii")
    return path


@pytest.mark.parametrize("n_samples", [None, 8])
def test_hi_answers_from_dimes_files(
    cifar: Cifar, tmp_path: Path, capsys: pytest.CaptureFixture[str], n_samples: int | None
) -> None:
    remote = (cifar.labels + (np.arange(N) % 4 == 0)) % 10  # wrong for every fourth
    file = predictions(tmp_path / "cifar_predictions.txt", remote)
    words: tuple[object, ...] = ("offload", "tune", "--network", cifar.small, "--data", cifar.data)
    words += ("--preprocess", "unit")
    words += ("--remote-predictions", file, "--logistic", "resnet8-fp", "--rule", "published")
    if n_samples is not None:  # every fifth: 0, 5, 10, … 35
        words += ("--n-samples", str(n_samples))
    found = document(capsys, *words, *KNOWN)
    small = cifar.probabilities("small")
    chosen = np.arange(N) if n_samples is None else np.arange(0, N, 5)
    assert found["local_accuracy"] == (small.argmax(1) == cifar.labels)[chosen].mean()
    assert found["remote_accuracy"] == (remote == cifar.labels)[chosen].mean()
    assert found["n_searched"] == 10
    (costs,) = found["costs"]
    assert costs["decision_s"]["source"] == "this host"
    assert costs["decision_s"]["value"] > 0


def test_hi_adds_labels_and_predictions_to_outputs(
    cifar: Cifar, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = tmp_path / "outputs.npz"
    np.savez(outputs, probabilities=cifar.probabilities("small"))
    file = predictions(tmp_path / "predictions.txt", cifar.labels)
    words = ("offload", "tune", outputs, "--data", cifar.data, "--remote-predictions", file)
    found = document(capsys, *words, *KNOWN)
    right = cifar.probabilities("small").argmax(1) == cifar.labels
    assert (found["local_accuracy"], found["remote_accuracy"]) == (right.mean(), 1.0)
    assert found["n_searched"] == 10
    code, out, err = answer(capsys, *words, *KNOWN)
    assert code == 0, err
    assert "the two largest of 10 outputs, their softmax and a logistic" in " ".join(out.split())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has 0 predictions, and there are 40 samples"),
        ("1\n" * 39, "has 39 predictions, and there are 40 samples"),
        ("1\n" * 41, "has 41 predictions, and there are 40 samples"),
        ("1\nx\n", "line 2 is 'x', not a class"),
        ("1\n\n1\n", "line 2 is '', not a class"),
        ("-1\n" * 40, "line 1 is '-1', not a class"),
        ("1e3\n" * 40, "line 1 is '1e3', not a class"),
        (f"{'9' * 400}\n", "line 1 is '9999"),
        ("1\n" * 39 + "10\n", "line 40 is class 10, and there are 10 classes"),
        ("1\x1b[2J\n", "not a class"),
        ("½\n", "is not a text of numbers"),
    ],
)
def test_predictions_that_are_none_are_one_line(
    cifar: Cifar, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, fault: str
) -> None:
    outputs, file = tmp_path / "outputs.npz", tmp_path / "predictions.txt"
    np.savez(outputs, probabilities=cifar.probabilities("small"), labels=cifar.labels)
    file.write_text(text, "utf-8")
    code, out, err = answer(
        capsys, "offload", "tune", outputs, "--remote-predictions", file, *KNOWN
    )
    assert (code, out) == (1, ""), err
    assert fault in err.splitlines()[-1]
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--data", "{data}"), "--data gives what"),
        (("--remote-predictions", "{data}", "--remote-network", "x.onnx"), "exclude each other"),
        (("--preprocess", "unit"), "are about a network that is run"),
    ],
)
def test_what_samples_have_is_not_given_twice(
    cifar: Cifar,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    fault: str,
) -> None:
    outputs = tmp_path / "outputs.npz"
    np.savez(outputs, probabilities=cifar.probabilities("small"), labels=cifar.labels)
    given = (word.format(data=cifar.data) for word in words)
    code, out, err = answer(capsys, "offload", "tune", outputs, *given, *KNOWN)
    assert (code, out) == (2, ""), err
    assert fault in err.splitlines()[-1]


def test_a_decision_that_a_run_measured_counts(
    cifar: Cifar, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs, runs = tmp_path / "outputs.npz", tmp_path / "runs"
    np.savez(outputs, probabilities=cifar.probabilities("small"), labels=cifar.labels)
    write_networks(runs, [measurement("b" * 16, [2e-3] * 20, model="tiny", batch=1)])
    timed = tuple(
        DecisionTime(n_classes=n, seconds_s=tuple(1e-6 * (n + at) for at in range(25)))
        for n in (10, 100)
    )
    rows = [offload_row("local", predicted=(1,), latency_s=(2e-3,), p1=(0.9,), decisions=timed)]
    write_offloads(runs, rows)
    words = (
        "offload",
        "tune",
        outputs,
        "--local",
        "tiny",
        "--runs",
        runs,
        "--offload-latency",
        "5ms±0",
    )
    found = document(capsys, *words, "--held-out", "0")
    (costs,) = found["costs"]
    # The median of 10, 11, … 34 µs is 22; the 8th and the 18th hold it with 95 %.
    decision = costs["decision_s"]
    assert [decision[end] for end in ("low", "value", "high")] == pytest.approx(
        [17e-6, 22e-6, 27e-6]
    )
    assert decision["source"] == "measured"
    assert found["n_searched"] == 10
