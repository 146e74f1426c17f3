"""How far two outputs are from each other, and what a failed attempt is called."""

from __future__ import annotations

import numpy as np
import pytest

from mansard.core.errors import ModelError
from mansard.estimator.export.checking import OutputDifference, difference
from mansard.estimator.export.network import described, foreign_code
from mansard.estimator.export.tracing import branches_taken

INF, NAN = float("inf"), float("nan")


def test_export_difference_is_relative_to_the_greatest_value() -> None:
    ours = np.array([1.0, -4.0, 2.5], np.float64)
    theirs = np.array([1.0, -4.0, 2.0], np.float64)
    assert difference(ours, theirs) == OutputDifference(0.5, 0.125)  # 0.5 / 4
    assert difference(theirs, theirs) == OutputDifference(0.0, 0.0)
    zero = np.zeros(3)
    assert difference(ours, zero) == OutputDifference(4.0, INF)
    assert difference(zero, zero) == OutputDifference(0.0, 0.0)


def test_export_difference_of_integers_and_truths() -> None:
    assert difference(np.array([3, 9]), np.array([3, 10])) == OutputDifference(1.0, 0.1)
    assert difference(np.array([True]), np.array([False])) == OutputDifference(1.0, INF)


def test_export_difference_of_numbers_that_are_not_finite() -> None:
    theirs = np.array([1.0, -INF, NAN])
    assert difference(np.array([1.0, -INF, NAN]), theirs) == OutputDifference(0.0, 0.0)
    assert difference(np.array([1.5, -INF, NAN]), theirs) == OutputDifference(0.5, 0.5)
    assert difference(np.array([1.0, INF, NAN]), theirs) is None
    assert difference(np.array([NAN, -INF, NAN]), theirs) is None
    assert difference(np.array([1.0, -INF, 0.0]), theirs) is None


def test_export_difference_of_what_cannot_be_compared() -> None:
    assert difference(np.zeros((1, 3)), np.zeros(3)) is None
    assert difference(np.zeros(3), np.zeros(3, np.int64)) is None
    assert difference(np.zeros(0), np.zeros(0)) == OutputDifference(0.0, 0.0)


def test_export_foreign_errors_become_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def make() -> None:
        with foreign_code("net.py:make"):
            print("chatter")  # noqa: T201 - what user code does
            raise ValueError("\n  first\nsecond")

    with pytest.raises(ModelError, match=r"^net\.py:make raised ValueError: first$"):
        make()
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "chatter\n")  # stdout is for data
    with pytest.raises(ModelError, match="raised SystemExit: 3"), foreign_code("net.py:make"):
        raise SystemExit(3)
    with pytest.raises(KeyboardInterrupt), foreign_code("net.py:make"):
        raise KeyboardInterrupt


def test_export_the_cause_is_told_not_the_wrapper() -> None:
    inner = KeyError("weight")
    middle, outer = RuntimeError("conversion failed"), RuntimeError("export failed")
    middle.__cause__, outer.__cause__ = inner, middle
    assert described(outer) == "KeyError: 'weight'"
    assert described(ValueError()) == "ValueError"


def test_export_conditions_on_tensors_are_told() -> None:
    said = ["Converting a tensor to a Python boolean might cause the trace to be incorrect. x"]
    assert branches_taken(["something else"]) == ()
    assert "followed 1 Python conditions" in branches_taken([*said, *said, "other"])[0]
