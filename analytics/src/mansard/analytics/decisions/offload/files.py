"""Files that are read and written: recorded samples, costs of modes, curves, and answers.

Answers are kept beside runs, for the report: ``RUNS/hierarchical/NAME.json``.
"""

from __future__ import annotations

import codecs
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.exceptions import PanicException, PolarsError

from mansard.analytics.data.layout import OFFLOADS_FOLDER
from mansard.analytics.decisions.offload.costs import COSTS, PARTS, mode_costs
from mansard.analytics.decisions.offload.policies import probability
from mansard.analytics.decisions.offload.records import (
    Amount,
    CostSource,
    Hierarchical,
    Logistic,
    ModeCosts,
    make_amount,
)
from mansard.analytics.decisions.offload.rules import means_of
from mansard.analytics.decisions.offload.samples import NAMES, LabelledSamples
from mansard.analytics.decisions.offload.thresholds import sweep
from mansard.core.errors import InputError, UsageError
from mansard.core.storage.documents import read_document, write_document
from mansard.core.storage.files import entries_in, make_folder, read_whole, write_atomic

_MOST_BYTES = 2 << 30
_VECTORS = ("probabilities", "logits")
_TEXTS = ("predicted", "label", "remote")
_SOURCES: tuple[CostSource, ...] = ("given", "measured", "simulated", "modelled", "published")
_EXAMPLE = "mode,local_s,local_j,offload_s,offload_j"


def read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns of a table of samples as ``make_samples`` takes them.

    Of a CSV file vectors are numbered columns, probabilities_0, probabilities_1, …; of a Parquet
    file also one column of lists. Raises InputError with the row, StorageError.
    """
    columns: dict[str, NDArray[Any]] = {}
    with _readable(path):
        frame = _read(path)
        if frame.height == 0:
            raise InputError("holds no samples", where=str(path), fix="give a row for each sample")
        for key, names in NAMES.items():
            name = next((alias for alias in names if alias in frame.columns), None)
            if key in _VECTORS:
                vectors = _vectors(frame, name, names, path)
                if vectors is not None:
                    columns[key] = vectors
            elif name is not None:
                column = frame.get_column(name)
                columns[key] = _classes(column) if key in _TEXTS else _numbers(column, path)
    if not columns:
        raise InputError(
            f"has no column of samples, only {', '.join(frame.columns[:8])}",
            where=str(path),
            fix="name them p1, p2, predicted, label, remote: docs/use/hierarchical.md",
        )
    return columns


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of Polars on a file or a column into an InputError of one line."""
    try:
        yield
    # Of a damaged file polars also raises a panic, which is no Exception.
    except (PolarsError, PanicException, ValueError, TypeError) as error:
        first = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"cannot be read: {first}", where=str(path), fix="give a CSV or Parquet table"
        ) from error


def _read(path: Path) -> pl.DataFrame:
    data = read_whole(path, most_bytes=_MOST_BYTES)
    if not data.strip():
        raise InputError("is empty", where=str(path), fix="give a table with a header")
    if path.suffix.lower() == ".parquet":
        return pl.read_parquet(io.BytesIO(data))
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError("is UTF-16 text", where=str(path), fix="save it as UTF-8")
    return pl.read_csv(io.BytesIO(data), infer_schema=False).rename(str.strip)


def _vectors(
    frame: pl.DataFrame, name: str | None, names: tuple[str, ...], path: Path
) -> NDArray[Any] | None:
    if name is not None and isinstance(frame.schema[name], (pl.List, pl.Array)):
        column = frame.get_column(name).cast(pl.List(pl.Float64))
        lengths = column.list.len().fill_null(0)
        n_classes = int(str(lengths.max() or 0))
        if (lengths != n_classes).any() or n_classes == 0:
            row = int((lengths != n_classes).arg_max() or 0)
            raise InputError(
                f"row {row + 1:,}: {name} has {lengths[row]} classes, others have {n_classes}",
                where=str(path),
                fix="give as many in every row",
            )
        return np.reshape(column.explode().to_numpy().astype(np.float64), (frame.height, -1))
    for stem in names:
        numbered: list[str] = []
        while f"{stem}_{len(numbered)}" in frame.columns:
            numbered.append(f"{stem}_{len(numbered)}")
        if numbered:
            return np.column_stack([_numbers(frame.get_column(one), path) for one in numbered])
    return None


def _numbers(column: pl.Series, path: Path) -> NDArray[np.float64]:
    """A column as numbers; what is empty or missing is NaN. Raises InputError with the row."""
    if column.dtype == pl.String:
        texts = column.str.strip_chars()
        numbers = texts.replace("", None).cast(pl.Float64, strict=False)
        is_wrong = numbers.is_null() & texts.is_not_null() & (texts != "")
        if is_wrong.any():
            row = int(is_wrong.arg_max() or 0)
            raise InputError(
                f"row {row + 1:,}: {column.name} is {str(texts[row])[:40]!r}, not a number",
                where=str(path),
                fix="remove the row, or record it again",
            )
    elif column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
    else:
        raise InputError(f"{column.name} holds no numbers", where=str(path), fix="give numbers")
    return np.asarray(numbers.fill_null(math.nan).to_numpy(), dtype=np.float64)


def _classes(column: pl.Series) -> NDArray[Any]:
    """Classes as numbers where all are, else as texts; what is missing is NaN or empty."""
    if column.dtype == pl.String:
        texts = column.str.strip_chars()
        numbers = texts.replace("", None).cast(pl.Float64, strict=False)
        if (numbers.is_null() & texts.is_not_null() & (texts != "")).any():
            return np.asarray(texts.fill_null("").to_numpy(), dtype=np.str_)
        return np.asarray(numbers.fill_null(math.nan).to_numpy())
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        return np.asarray(column.cast(pl.Float64).fill_null(math.nan).to_numpy())
    return np.asarray(column.cast(pl.String).fill_null("").to_numpy(), dtype=np.str_)


def read_mode_costs(path: Path) -> tuple[ModeCosts, ...]:
    """One ``ModeCosts`` for each row of a table.

    Columns: ``mode``, and local_s, decision_s, offload_s, local_j, decision_j, offload_j with
    their ends, local_low_s, local_high_s and so on; ``source``: measured, modelled, … Raises
    InputError with the row.
    """
    ends = [f"{part}_{end}_{unit}" for part in PARTS for end in ("low", "high") for unit in "sj"]
    with _readable(path):
        frame = _read(path)
        strangers = sorted({*frame.columns} - {"mode", "source", *COSTS, *ends})
        if strangers or "mode" not in frame.columns or frame.height == 0:
            what = f"has an unknown column {strangers[0]!r}" if strangers else "names no mode"
            raise InputError(what, where=str(path), fix=f"write {_EXAMPLE}")
        columns = [name for name in (*COSTS, *ends) if name in frame.columns]
        numbers = {name: _numbers(frame.get_column(name), path) for name in columns}
        modes, sources = _texts(frame, "mode"), _sources(frame, path)
    costs_of_modes: list[ModeCosts] = []
    for row, (mode, source) in enumerate(zip(modes, sources, strict=True)):
        if not mode or mode in {costs.mode for costs in costs_of_modes}:
            what = f"row {row + 1:,} names no mode" if not mode else f"{mode!r} has two rows"
            raise InputError(what, where=str(path), fix="write one row for each mode")
        amounts = {}
        for name in COSTS:
            value = float(numbers[name][row]) if name in numbers else math.nan
            if not math.isnan(value):
                amounts[name] = _amount(name, value, numbers, row, source, path)
        costs_of_modes.append(mode_costs(mode, amounts))
    return tuple(costs_of_modes)


def _texts(frame: pl.DataFrame, name: str) -> list[str]:
    if name not in frame.columns:
        return [""] * frame.height
    return [text.strip() for text in frame.get_column(name).cast(pl.String).fill_null("")]


def _sources(frame: pl.DataFrame, path: Path) -> list[CostSource]:
    known: dict[str, CostSource] = {name: name for name in _SOURCES}
    texts = [text or "given" for text in _texts(frame, "source")]
    for row, text in enumerate(texts):
        if text not in known:
            raise InputError(
                f"row {row + 1:,}: the source {text!r}",
                where=str(path),
                fix=f"write {', '.join(_SOURCES)}",
            )
    return [known[text] for text in texts]


def _amount(
    name: str,
    value: float,
    numbers: Mapping[str, NDArray[np.float64]],
    row: int,
    source: CostSource,
    path: Path,
) -> Amount:
    part, _, unit = name.rpartition("_")
    low, high = (
        float(numbers[column][row]) if column in numbers else math.nan
        for column in (f"{part}_low_{unit}", f"{part}_high_{unit}")
    )
    is_bare = math.isnan(low) and math.isnan(high)
    if not (0 <= value < math.inf) or not (is_bare or 0 <= low <= value <= high < math.inf):
        raise InputError(
            f"row {row + 1:,}: {name} is {value:g}, between {low:g} and {high:g}",
            where=str(path),
            fix="give a value from 0 on between its ends, or no ends",
        )
    return (
        make_amount(value, source=source)
        if is_bare
        else make_amount(value, low, high, "spread", source)
    )


_MOST_DIGITS = 9  # of a class
_MOST_PREDICTION_BYTES = 128 << 20  # ten digits for each of 10 million samples


def read_predictions(path: Path, n_samples: int, n_classes: int = 0) -> NDArray[np.int64]:
    """The class that a server predicted for each sample: a text file with one on each line.

    DIME's programs read such files (github.com/JoseGaDel/DIME, ``cifar_predictions.txt``), in the
    order of the data set. ``n_classes`` 0: not known. Raises InputError with the line.
    """
    fix = "give one class, a number from 0 on, on each line"
    try:
        lines = read_whole(path, most_bytes=_MOST_PREDICTION_BYTES).decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise InputError("is not a text of numbers", where=str(path), fix=fix) from error
    while lines and not lines[-1].strip():
        lines.pop()
    classes = np.empty(len(lines), np.int64)
    for at, line in enumerate(lines):
        word = line.strip()
        if not word.isdecimal() or len(word) > _MOST_DIGITS:
            what = f"line {at + 1:,} is {word[:40]!r}, not a class"
            raise InputError(what, where=str(path), fix=fix)
        classes[at] = int(word)
    if len(classes) != n_samples:
        raise InputError(
            f"has {len(classes):,} predictions, and there are {n_samples:,} samples",
            where=str(path),
            fix="give those of the same samples, in the same order",
        )
    if n_classes and classes.max() >= n_classes:
        at = int(np.argmax(classes >= n_classes))
        raise InputError(
            f"line {at + 1:,} is class {classes[at]}, and there are {n_classes} classes",
            where=str(path),
            fix="number the classes as the labels do, from 0 on",
        )
    return classes


def write_curve(
    path: Path, samples: LabelledSamples, logistic: Logistic | None, mode: ModeCosts
) -> None:
    """Write every threshold on p1, or of ``logistic``, over all ``samples`` as CSV.

    Mean latency (s) and energy (J) are those of ``mode``; empty where unknown. Raises StorageError.
    """
    one = sweep(samples, samples.p1 if logistic is None else probability(logistic, samples))
    means = means_of(one, mode, "threshold")
    frame = pl.DataFrame(
        {
            "threshold": one.threshold,
            "share": one.share,
            "accuracy_least": one.accuracy_least,
            "accuracy_most": one.accuracy_most,
            "n_offloaded": one.n_offloaded,
            "n_right": one.n_right,
            "n_unanswered": one.n_unanswered,
            "latency_s": means["latency"].value,
            "energy_j": means["energy"].value,
        }
    )
    stream = io.BytesIO()
    frame.fill_nan(None).write_csv(stream)
    write_atomic(path, stream.getvalue())


_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")


def check_name(name: str) -> str:
    """``name``; raises UsageError where no file can bear it."""
    if not _NAME.fullmatch(name):
        fix = "use letters, digits, dots and dashes, 64 at most"
        raise UsageError(f"{name!r} cannot name an answer", fix=fix)
    return name


def write_answer(runs: Path, name: str, answer: Hierarchical) -> Path:
    """Store ``answer`` in ``runs`` under ``name``, replacing an earlier one."""
    folder = make_folder(runs / OFFLOADS_FOLDER, runs)
    path = folder / f"{check_name(name)}.json"
    write_document(path, answer, runs)
    return path


def answers_in(locations: Sequence[str]) -> dict[str, Hierarchical]:
    """The answers kept in folders of runs, by name, and by folder too where two have one name.

    Datasets at a URL have none. Raises SchemaError, StorageError.
    """
    answers: dict[str, Hierarchical] = {}
    for location in locations:
        runs = Path(location)
        if "://" in location or not runs.is_dir():
            continue
        for entry in entries_in(runs / OFFLOADS_FOLDER, runs):
            name = entry.removesuffix(".json")
            if name != entry:
                answer = read_document(runs / OFFLOADS_FOLDER / entry, Hierarchical, runs)
                answers[name if name not in answers else f"{location}/{name}"] = answer
    return answers
