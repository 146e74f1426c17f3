"""Files that are made to fill the memory: refused before they are unpacked, with one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mansard.analytics.data import limits
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.layout import MOST_FILE_BYTES, expanded_bytes
from mansard.analytics.data.opening import merge, open_runs
from mansard.analytics.data.published.cells import MOST_COLUMNS, parse_table
from mansard.analytics.models.roofs.rates import estimate
from mansard.core.errors import InputError, SchemaError, StorageError
from mansard.core.storage.jsonl import LONGEST_LINE
from tests.analytics.factory import manifest, trial, write_run, write_two_modes


def expands_to(path: Path) -> int:
    with path.open("rb") as stream:
        return expanded_bytes(stream, str(path))


def test_a_parquet_file_that_expands_is_refused_before_it_is_read(tmp_path: Path) -> None:
    write_two_modes(tmp_path / "runs")
    merge([tmp_path / "runs"], str(tmp_path / "dataset"))
    path = next((tmp_path / "dataset/runs").rglob("*.parquet"))
    # 2·10^7 rows of two columns, 16 bytes each: 610 MiB, in some kilobytes.
    texts = [pl.lit("A").alias(name) for name in ("run_id", "trial_id")]
    pl.LazyFrame().select(pl.int_range(0, 20_000_000)).select(
        pl.when(pl.first() < 0).then(0).alias("n"), *texts
    ).sink_parquet(path, compression="zstd")
    assert path.stat().st_size < 1 << 20
    assert expands_to(path) > MOST_FILE_BYTES
    with pytest.raises(StorageError, match=r"expands to .* MiB, more than the 256"):
        open_runs([tmp_path / "dataset"])


def test_what_a_file_expands_to_is_at_least_its_frame(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "text": [f"{n % 7} of many" for n in range(5000)],
            "number": np.arange(5000.0),
            "list": [[n, n + 1] for n in range(5000)],
            "none": pl.Series([None] * 5000, dtype=pl.Int64),
        }
    )
    path = tmp_path / "a.parquet"
    for compression in ("zstd", "snappy", "uncompressed"):
        frame.write_parquet(path, compression=compression, row_group_size=700)
        assert frame.estimated_size() <= expands_to(path) < 4 * frame.estimated_size()


@pytest.mark.parametrize("data", [b"", b"PAR1", b"mode,x\n", b"no such file at all"])
def test_what_is_no_parquet_file_is_left_to_its_reader(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    assert expands_to(path) == 0


@pytest.mark.parametrize("data", [b"PAR1" * 3, b"\xff" * 40 + b"PAR1", b"\0" * 40 + b"PAR1"])
def test_a_damaged_footer_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(StorageError, match="its footer or the header of a page is damaged"):
        expands_to(path)


@pytest.mark.parametrize(
    "extra",
    [
        "0c c801" + " 1c" * 40 + " 00" * 41,  # structs, one in another
        "05 c801" + " ff" * 11 + " 01",  # an integer of more than 64 bits
    ],
)
def test_a_footer_with_more_than_we_understand_is_refused(tmp_path: Path, extra: str) -> None:
    """Polars skips a field that it does not know, so what stands beside it could be any size."""
    path = tmp_path / "a.parquet"
    pl.DataFrame({"n": [1, 2]}).write_parquet(path)
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    # Before the end of the footer's struct: field 100 (zigzag 200 = c8 01), which Parquet has not.
    footer = data[-8 - length : -9] + bytes.fromhex(f"{extra} 00")
    path.write_bytes(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert pl.read_parquet(path)["n"].to_list() == [1, 2]
    with pytest.raises(StorageError, match="its footer or the header of a page is damaged"):
        expands_to(path)


def test_a_table_of_very_many_columns() -> None:
    names = ",".join(f"c{number}" for number in range(MOST_COLUMNS + 1))
    with pytest.raises(InputError, match="1,001 columns, more than the 1,000"):
        parse_table(f"{names}\n1\n".encode(), "t.csv")


def test_a_row_of_very_many_numbers(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9)])
    with (tmp_path / "r/trials.jsonl").open("ab") as stream:
        stream.write(b'{"seconds_s":[' + b"1," * LONGEST_LINE + b"1]}\n")
    with pytest.raises(SchemaError, match=r"line 3: a line has more than 8 MiB"):
        ingest(tmp_path)


def test_a_run_of_very_many_trials(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9)])
    path = tmp_path / "r/trials.jsonl"
    header, row = path.read_bytes().splitlines()
    trial_id = json.loads(row)["trial_id"].encode()
    rows = [row.replace(trial_id, b"%016x" % n) for n in range(limits.MOST_TRIALS + 1)]
    path.write_bytes(b"\n".join([header, *rows, b""]))
    with pytest.raises(InputError, match="has more than 20,000 trials"):
        ingest(tmp_path)


def test_a_document_of_very_many_bytes(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9)])
    with (tmp_path / "r/manifest.json").open("r+b") as stream:
        stream.truncate(1 << 40)  # sparse
    with pytest.raises(StorageError, match="has more than 16 MiB"):
        ingest(tmp_path)


def test_the_interval_of_very_many_blocks_takes_bounded_memory() -> None:
    """12,000 blocks at once would be 2000 · 12,000 · 8 B = 192 MB for each of three arrays."""
    import tracemalloc

    random = np.random.default_rng(3)
    groups = [random.normal(100.0, 1.0, 3) for _ in range(4000)]
    tracemalloc.start()
    found = estimate(groups)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high
    # The median of n normal values scatters by 1.25 / √n: ± 2 · 1.25 / √12,000 = ± 0.023.
    assert 0.02 < found.high - found.low < 0.1
