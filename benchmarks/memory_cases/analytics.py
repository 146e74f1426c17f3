"""Run folders, datasets and tables of others that are made to fill the memory."""

from __future__ import annotations

import gzip
import io
import json
from functools import partial
from pathlib import Path

from synthetic_runs import write_modes

from memory_cases.case import Case, Run

_ROWS_AT_ONCE = 10_000
_KEYS = ("run_id", "machine_id")
_TEXTS = ("machine", "mode", "profile", "plan_hash")


def _run_folder(runs: Path) -> Path:
    """A usual run of 200 trials; returns its folder."""
    write_modes(runs, 1)
    (folder,) = (each for each in runs.iterdir() if each.is_dir())
    return folder


def _many_trials(folder: Path, is_attack: bool, *, command: str, n_trials: int) -> Run:
    run = _run_folder(folder / "runs")
    if is_attack:
        _write_trials(run / "trials.jsonl", n_trials)
    network = () if command == "report" else ("resnet18",)
    return Run(("mansard", command, *network, "--runs", "runs"))


def _write_trials(path: Path, n_trials: int) -> None:
    """The first trial many times under other ids; each has three blocks of one sample."""
    header, first = path.read_bytes().split(b"\n")[:2]
    row = json.loads(first)
    row |= {"trial_id": "ID", "seconds_s": row["seconds_s"][:3], "block": [0, 1, 2], "energy": []}
    before, after = json.dumps(row, separators=(",", ":")).encode().split(b"ID")
    with path.open("wb") as stream:
        stream.write(header + b"\n")
        for start in range(0, n_trials, _ROWS_AT_ONCE):
            numbers = range(start, min(start + _ROWS_AT_ONCE, n_trials))
            stream.writelines(b"%s%016x%s\n" % (before, number, after) for number in numbers)


def _long_row(folder: Path, is_attack: bool) -> Run:
    """A trial whose list of seconds has a hundred million numbers."""
    run = _run_folder(folder / "runs")
    path = run / "trials.jsonl"
    header, row = path.read_bytes().split(b"\n")[:2]
    if is_attack:
        at = row.index(b'"seconds_s":[') + len(b'"seconds_s":[')
        with path.open("wb") as stream:
            stream.write(header + b"\n" + row[:at])
            for _ in range(100):
                stream.write(b"1," * 1_000_000)
            stream.write(row[at:] + b"\n")
    return Run(("mansard", "report", "--runs", "runs"))


def _manifest(folder: Path, text: bytes, is_attack: bool) -> Run:
    run = _run_folder(folder / "runs")
    if is_attack:
        path = run / "manifest.json"
        whole = path.read_bytes()
        at = whole.index(b'"versions": {') + len(b'"versions": {')
        path.write_bytes(whole[:at] + text + whole[at:])
    return Run(("mansard", "report", "--runs", "runs"))


def _deep_manifest(folder: Path, is_attack: bool) -> Run:
    return _manifest(folder, b'"a": ' + b"[" * 5_000_000 + b"]" * 5_000_000, is_attack)


def _wide_manifest(folder: Path, is_attack: bool) -> Run:
    entries = b",".join(b'"%d":""' % number for number in range(20_000_000 if is_attack else 0))
    return _manifest(folder, entries, is_attack)


def _many_columns(folder: Path, is_attack: bool) -> Run:
    n_columns = 100_000 if is_attack else 3
    names = ["mode", "network", "time_ms", *(f"c{number}" for number in range(n_columns))]
    cells = ["15W", "net", "3", *("1" for _ in range(n_columns))]
    rows = 10 if is_attack else 1
    lines = [",".join(names), *(",".join(cells).replace("15W", f"{n}W") for n in range(rows))]
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    return _import(folder)


def _long_table(folder: Path, is_attack: bool) -> Run:
    """A sparse file of 30 GB."""
    (folder / "table.csv").write_text("mode,network,time_ms\n15W,net,3\n")
    if is_attack:
        with (folder / "table.csv").open("r+b") as stream:
            stream.truncate(30 << 30)
    return _import(folder)


def _import(folder: Path) -> Run:
    return Run(
        (
            *("mansard", "import", "table.csv", "--device", "board", "--citation", "none"),
            *("--fixed", "batch=1", "--fixed", "precision=fp16", "--runs", str(folder / "runs")),
        )
    )


def _bomb(folder: Path, is_attack: bool, *, n_rows: int, n_characters: int) -> Run:
    """A dataset of others, one Parquet file of which expands to so many rows or characters."""
    import polars as pl

    from mansard.analytics.data.opening import merge

    _run_folder(folder / "runs")
    merge([folder / "runs"], str(folder / "dataset"))
    if is_attack:
        path = next((folder / "dataset/runs").rglob("*.parquet"))
        first = pl.read_parquet(path).head(1)
        long = dict.fromkeys(_TEXTS, "A" * n_characters) if n_characters else {}
        pl.LazyFrame().select(pl.int_range(0, n_rows).alias("row")).select(
            pl.lit(pl.Series([long.get(name, first[name][0])], dtype=kind)).first().alias(name)
            if name in {*_TEXTS, *_KEYS}
            else pl.when(pl.col("row") < 0).then(None).cast(kind).alias(name)
            for name, kind in first.schema.items()
        ).sink_parquet(path, compression="zstd", row_group_size=1_000_000)
    return Run(("mansard", "report", "--runs", "dataset", "--output", "report.html"))


def _zipped_log(folder: Path, is_attack: bool) -> Run:
    """A gzip file of one line without end, 10 GB in 10 MB."""
    line = b"05-13-2026 12:00:0%d RAM 1/2MB CPU [1%%@100] VDD_IN 5000mW/5000mW\n"
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as stream:
        for number in range(9):
            stream.write(line % number)
        zeros = b"0" * (1 << 24)
        for _ in range(600 if is_attack else 0):
            stream.write(zeros)
    (folder / "run.log.gz").write_bytes(buffer.getvalue())
    return Run(("mansard", "telemetry", "run.log.gz", "--json"))


CASES = (
    *(
        Case(
            f"{n_trials:,} trials in a run: {command}",
            partial(_many_trials, command=command, n_trials=n_trials),
        )
        for command, n_trials in (
            ("report", 1_000_000),
            ("recommend", 1_000_000),
            ("report", 20_000),
        )
    ),
    Case("10^8 numbers in a row: report", _long_row),
    Case("10^7 brackets in a manifest: report", _deep_manifest),
    Case("2·10^7 entries in a manifest: report", _wide_manifest),
    Case("10^5 columns in a table: import", _many_columns),
    Case("a table of 30 GB: import", _long_table),
    Case(
        "a Parquet file of 3·10^7 rows: report",
        partial(_bomb, n_rows=30_000_000, n_characters=0),
    ),
    Case(
        "a Parquet file with 2 GB of text: report",
        partial(_bomb, n_rows=1, n_characters=500_000_000),
    ),
    Case("a log that expands to 10 GB: telemetry", _zipped_log),
)
