"""What is taken for samples, and what is refused in one line."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from mansard.analytics.decisions.offload.files import read_columns, read_mode_costs
from mansard.analytics.decisions.offload.samples import (
    RIGHT,
    UNANSWERED,
    WRONG,
    make_samples,
    split,
)
from mansard.core.errors import InputError

GOOD: dict[str, Any] = {
    "p1": [0.9, 0.6, 0.5],
    "p2": [0.1, 0.3, 0.5],
    "predicted": [1, 2, 3],
    "label": [1, 0, 3],
    "remote": [1, 0, -1],
}


def made(**changes: Any) -> dict[str, Any]:
    arrays = {**GOOD, **changes}
    return {name: np.array(each) for name, each in arrays.items() if each is not None}


def test_who_is_right() -> None:
    samples = make_samples(made(), "here")
    assert samples.local.tolist() == [RIGHT, WRONG, RIGHT]
    assert samples.remote.tolist() == [RIGHT, RIGHT, UNANSWERED]
    assert samples.agrees.tolist() == [RIGHT, WRONG, UNANSWERED]


def test_texts_are_classes_and_an_empty_one_is_no_answer() -> None:
    words: dict[str, Any] = {
        "predicted": ["cat", "dog", "cat"],
        "label": ["cat", "cat", "cat"],
        "remote": ["cat", "", "dog"],
    }
    samples = make_samples(made(**words), "here")
    assert samples.local.tolist() == [RIGHT, WRONG, RIGHT]
    assert samples.remote.tolist() == [RIGHT, UNANSWERED, WRONG]


def test_logits_become_the_two_largest_probabilities() -> None:
    # e² / (e² + e¹ + e⁰) = 7.389056 / 11.107338 = 0.665241, e¹ / … = 0.244728
    logits = np.array([[1.0, 2.0, 0.0]] * 3)
    classes = made(p1=None, p2=None, predicted=None, label=[1, 0, 2])
    samples = make_samples({**classes, "logits": logits}, "here")
    assert samples.p1[0] == pytest.approx(0.665241, abs=1e-6)
    assert samples.p2 is not None
    assert samples.p2[0] == pytest.approx(0.244728, abs=1e-6)
    assert samples.local.tolist() == [RIGHT, WRONG, WRONG]  # class 1 against 1, 0, 2


def test_probabilities_of_8_bits_need_not_add_up_to_1() -> None:
    # 1,000 classes, p1 = 0.5: the others are 0.5 / 999, less than half a step of 1/256, and so 0.
    vectors = np.zeros((3, 1000))
    vectors[:, 7] = 0.5
    arrays = {"probabilities": vectors, "label": np.array([7, 0, 7])}
    samples = make_samples(arrays, "here")
    assert samples.p1.tolist() == [0.5] * 3
    assert samples.local.tolist() == [RIGHT, WRONG, RIGHT]


def test_rounding_above_1_and_classes_in_a_column_of_their_own() -> None:
    samples = make_samples(made(p1=[1.0000001, 0.6, 0.5], label=[[1], [0], [3]]), "here")
    assert samples.p1[0] == 1.0
    assert samples.local.tolist() == [RIGHT, WRONG, RIGHT]


def test_correctness_in_the_place_of_classes() -> None:
    arrays = {
        "p1": np.array([0.9, 0.6, 0.5]),
        "local_right": np.array([1, 0, 0]),
        "remote_right": np.array([1, 1, -1]),
    }
    samples = make_samples(arrays, "here")
    assert samples.local.tolist() == [RIGHT, WRONG, WRONG]
    assert samples.remote.tolist() == [RIGHT, RIGHT, UNANSWERED]
    # Both right: they say the same. One right: they differ. Nothing recorded: not known.
    assert samples.agrees.tolist() == [RIGHT, WRONG, UNANSWERED]


VECTORS = made(p1=None, p2=None)
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("labels", made(label=[1, 0]), "label has 2 rows, the confidences have 3"),
    ("above 1", made(p1=[0.9, 1.2, 0.5]), "row 2: p1 is 1.2, outside 0 to 1"),
    ("below 0", made(p2=[0.1, 0.3, -0.5]), "row 3: p2 is -0.5, outside 0 to 1"),
    ("p2 above p1", made(p2=[0.1, 0.7, 0.5]), "row 2: p2 is 0.7, above p1, 0.6"),
    ("NaN", made(p1=[0.9, float("nan"), 0.5]), "row 2: p1 is not a finite number"),
    ("no p1", made(p1=None, p2=None), "has no p1"),
    ("no label", made(label=None), "has no label"),
    ("empty", {name: np.empty(0) for name in GOOD}, "holds no samples"),
    ("no class", made(label=[1, -1, 3]), "row 2: label is not a class"),
    ("mixed", made(label=["1", "0", "3"]), "one column of classes holds numbers, another texts"),
    (
        "half right",
        {"p1": np.array([0.5]), "local_right": np.array([0.5])},
        "row 1: local_right is neither 1 nor 0",
    ),
    (
        "logits as probabilities",
        {**VECTORS, "probabilities": np.array([[3.0, -1.0]] * 3)},
        "row 1: probabilities is 3, outside 0 to 1",
    ),
    (
        "sums",
        {**VECTORS, "probabilities": np.array([[0.5, 0.5], [0.2, 0.2], [0.5, 0.5]])},
        "row 2: the probabilities add up to 0.4",
    ),
    ("bytes", made(label=np.array([b"a", b"b", b"c"])), "label holds |S1: neither numbers nor"),
    ("dates", made(remote=np.array(["2026-01-01"] * 3, "M8[D]")), "remote holds datetime64[D]"),
    ("objects", made(remote=np.array([1, None, 2])), "remote holds object: neither numbers"),
    ("one number", made(label=1), "label has the shape []"),
    ("just above 1", made(p1=[0.9, 1.00001, 0.5]), "row 2: p1 is 1.00001, outside 0 to 1"),
    (
        "classes from 1",
        {"logits": np.eye(3), "label": np.array([1, 2, 3])},
        "row 3: label is 3, and the classes are 0 to 2",
    ),
    ("one class", {**VECTORS, "logits": np.ones((3, 1))}, "logits has the shape [3, 1]"),
]


@pytest.mark.parametrize(("arrays", "fault"), [each[1:] for each in BAD], ids=[x[0] for x in BAD])
def test_what_is_refused(arrays: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError) as error:
        make_samples(arrays, "samples.npz")
    assert str(error.value).startswith(f"samples.npz: {fault}")
    assert "\n" not in str(error.value)


def test_a_csv_and_a_parquet_file_say_the_same(tmp_path: Path) -> None:
    frame = pl.DataFrame({**GOOD, "remote": [1, 0, None]})
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        samples = make_samples(read_columns(tmp_path / name), name)
        assert samples.remote.tolist() == [RIGHT, RIGHT, UNANSWERED]
        assert samples.p1.tolist() == [0.9, 0.6, 0.5]


def test_vectors_in_numbered_columns_and_in_lists(tmp_path: Path) -> None:
    classes = {"predicted": [0, 1], "label": [0, 1], "remote": [0, 1]}
    pl.DataFrame({**classes, "logits_0": [2.0, 0.0], "logits_1": [0.0, 3.0]}).write_csv(
        tmp_path / "a.csv"
    )
    pl.DataFrame({**classes, "logits": [[2.0, 0.0], [0.0, 3.0]]}).write_parquet(
        tmp_path / "a.parquet"
    )
    first, second = (
        make_samples(read_columns(tmp_path / name), name).p1.tolist()
        for name in ("a.csv", "a.parquet")
    )
    # 1 / (1 + e⁻²) = 0.880797, 1 / (1 + e⁻³) = 0.952574
    assert first == second == pytest.approx([0.880797, 0.952574], abs=1e-6)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("p1,label\n", "holds no samples"),
        ("a,b\n1,2\n", "has no column of samples, only a, b"),
        ("p1,label\n0.5,1\nhigh,2\n", "row 2: p1 is 'high', not a number"),
        ("p1,label\n0.5,1\n0.5,1,3\n", "cannot be read"),
    ],
)
def test_tables_that_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_columns(path)
    assert str(error.value).startswith(f"{path}: {fault}")
    assert "\n" not in str(error.value)


COLUMNS: dict[str, Any] = {"label": [0, 1], "logits": [[2.0, 0.0], [0.0, 3.0]]}


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({"logits": [["a", "b"], ["c", "d"]]}, "cannot be read: "),
        ({"logits": [[[1.0, 2.0]], [[1.0, 2.0]]]}, "cannot be read: "),
        ({"logits": [[2.0, 0.0], None]}, "row 2: logits has 0 classes, others have 2"),
        ({"logits": [[2.0], [2.0, 0.0]]}, "row 1: logits has 1 classes, others have 2"),
        ({"label": [[1], [2]]}, "cannot be read: "),
        ({"label": [], "logits": pl.Series([], dtype=pl.List(pl.Float64))}, "holds no samples"),
    ],
)
def test_parquet_columns_that_are_refused(
    tmp_path: Path, columns: dict[str, Any], fault: str
) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({**COLUMNS, **columns}).write_parquet(path)
    with pytest.raises(InputError) as error:
        read_columns(path)
    assert str(error.value).startswith(f"{path}: {fault}")
    assert "\n" not in str(error.value)


def test_a_damaged_parquet_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pl.DataFrame({**COLUMNS, "p1": [0.5, 0.7]}).write_parquet(path)
    whole = path.read_bytes()
    for at in range(90, 100):  # in headers of pages, where polars panics
        path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        with contextlib.suppress(InputError):  # it may still be readable
            read_columns(path)


def test_header_names_with_spaces_and_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("p1, label ,predicted\n0.5,1,1\n", encoding="utf-8")
    assert sorted(read_columns(path)) == ["label", "p1", "predicted"]
    path.write_text("p1,label\n0.5,1\n", encoding="utf-16")
    with pytest.raises(InputError, match="is UTF-16 text; save it as UTF-8"):
        read_columns(path)


def test_a_split_gives_each_sample_to_one_side() -> None:
    arrays = {"p1": np.linspace(0, 1, 101), "local_right": np.zeros(101, int)}
    fit, judged = split(make_samples(arrays, "here"), 0.25, seed=4)
    assert (len(fit), len(judged)) == (76, 25)  # round(101 · 0.25) = 25
    assert sorted([*fit.p1, *judged.p1]) == np.linspace(0, 1, 101).tolist()


def test_costs_of_modes(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(
        "mode,local_s,local_low_s,local_high_s,local_j,source\n"
        "15W,0.002,0.0019,0.0021,0.01,measured\n"
        "30W,0.001,,,,modelled\n",
        encoding="utf-8",
    )
    slow, fast = read_mode_costs(path)
    assert slow.local_s is not None
    assert (slow.mode, slow.local_s.low, slow.local_s.source) == ("15W", 0.0019, "measured")
    assert fast.local_s is not None
    assert (fast.local_s.value, fast.local_s.interval, fast.local_j) == (0.001, None, None)
    assert fast.unknown["local_j"] == "it was not given"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("mode,local_ms\n15W,3\n", "has an unknown column 'local_ms'"),
        ("mode,local_s\n15W,0.1\n15W,0.2\n", "'15W' has two rows"),
        ("mode,local_s\n15W,-1\n", "row 1: local_s is -1"),
        ("mode,local_s,source\n15W,1,dreamt\n", "row 1: the source 'dreamt'"),
    ],
)
def test_costs_that_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=fault):
        read_mode_costs(path)
