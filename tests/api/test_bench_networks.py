"""The networks of a bench: which it runs, and that they are scored before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.api.scores import score_networks
from mansard.estimator import totals, zoo
from mansard.sweeps.reporter import ProgressDisplay, SilentReporter
from tests.api.test_results import tiny_model
from tests.estimator.test_stated_shapes import CONV_MACS, custom


class Listening(SilentReporter):
    """Keeps notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        self.notes.append(line)


def test_a_network_with_an_unknown_operator_stops_no_bench(tmp_path: Path) -> None:
    path, reporter = tmp_path / "net.onnx", Listening()
    path.write_bytes(custom())
    (found,) = score_networks([path], [2], {}, reporter)
    assert totals(found).macs is None
    assert totals(found).at_least["macs"] == 2 * CONV_MACS
    # the options of another command are not advised here
    assert reporter.notes == [
        f"note: {path}: 2 of 3 nodes are unknown, so no times are predicted; "
        f"'mansard score {path} --allow-unknown' says why"
    ]


def test_names_of_the_zoo_are_scored_like_files(tmp_path: Path) -> None:
    path = zoo.write("alexnet", tmp_path)
    named, read = (score_networks([model], [1, 8], {}) for model in ("alexnet", path))
    # 714,188,480 multiply-adds of one image, by torch's counter
    assert [totals(each).macs for each in named] == [714_188_480, 5_713_507_840]
    assert [totals(each) for each in named] == [totals(each) for each in read]


QUICK = ["mobilenet_v2", "resnet50", "yolov8n", "bert_base"]
OPERATORS = list(zoo.family("operators"))


class Preparing(SilentReporter):
    """Keeps the names of networks that are prepared, in their order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressDisplay]:
        del title
        yield self

    def update(self, n_done: int, n_total: int, remaining_s: float | None, now: str) -> None:
        del remaining_s
        if n_done < n_total:
            self.names.append(now)


@pytest.mark.parametrize(
    ("profile", "models", "has_networks", "run"),
    [
        ("brief", (), True, []),
        ("quick", (), True, [*QUICK, *OPERATORS]),
        ("quick", (), False, []),
        # The user's first: an interrupted bench has them.
        ("quick", ("alexnet",), True, ["alexnet", *OPERATORS]),
        ("full", ("alexnet",), True, ["alexnet", *OPERATORS]),
        ("brief", ("alexnet",), True, ["alexnet"]),
    ],
)
def test_operators_are_timed_after_the_networks_but_not_briefly(
    tmp_path: Path, profile: str, models: tuple[str, ...], run: list[str], *, has_networks: bool
) -> None:
    request = api.BenchRequest(
        models=models,
        has_networks=has_networks,
        profile=profile,
        runs=tmp_path,
        is_local=True,
        processor="cpu",
    )
    seen = Preparing()
    (board,) = api.dry_run(request, seen)
    assert seen.names == run
    (mode,) = board.modes
    kernels = api.dry_run(
        api.BenchRequest(
            has_networks=False, profile=profile, runs=tmp_path, is_local=True, processor="cpu"
        )
    )
    (without,) = next(iter(kernels)).modes
    # Two chains of tiny nodes beside the networks, and two beside the operators.
    n_chains = 2 * bool(set(run) - {*OPERATORS}) + 2 * (OPERATORS[0] in run)
    assert without.trials is not None
    assert mode.trials == without.trials + len(run) + n_chains


def test_a_model_in_memory_exists_until_a_dry_run_ends(tmp_path: Path) -> None:
    request = api.BenchRequest(
        models=(tiny_model(),),
        profile="brief",
        runs=tmp_path,
        is_local=True,
        processor="cpu",
    )
    alone = msgspec.structs.replace(request, models=(), has_networks=False)
    ((mode,), (kernels,)) = (next(iter(api.dry_run(each))).modes for each in (request, alone))
    assert kernels.trials is not None
    assert mode.trials == kernels.trials + 3  # the network and two chains of tiny nodes


def test_a_dry_run_ends_where_no_network_can_be_read(tmp_path: Path) -> None:
    path, reporter = tmp_path / "damaged.onnx", Listening()
    path.write_bytes(b"damaged")
    request = api.BenchRequest(
        models=(path,), profile="brief", runs=tmp_path / "runs", is_local=True, processor="cpu"
    )
    (board,) = api.dry_run(request, reporter)
    assert [mode.missing == mode.trials for mode in board.modes] == [True]
    assert [note for note in reporter.notes if "is not run" in note] != []
