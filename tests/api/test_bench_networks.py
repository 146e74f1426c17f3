"""The networks of a bench are scored before anything is measured."""

from __future__ import annotations

from pathlib import Path

from mansard.api.scores import score_networks
from mansard.estimator import totals, zoo
from mansard.sweeps.reporter import SilentReporter
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
        f"note: {path}: 2 of 3 layers are unknown, so no times are predicted; "
        f"'mansard score {path} --allow-unknown' says why"
    ]


def test_names_of_the_zoo_are_scored_like_files(tmp_path: Path) -> None:
    path = zoo.write("alexnet", tmp_path)
    named, read = (score_networks([model], [1, 8], {}) for model in ("alexnet", path))
    # 714,188,480 multiply-adds of one image, by torch's counter
    assert [totals(each).macs for each in named] == [714_188_480, 5_713_507_840]
    assert [totals(each) for each in named] == [totals(each) for each in read]
