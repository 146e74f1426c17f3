"""Memory is constant: tables and layouts forget, whatever a log makes them see."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

from mansard.device.tegrastats import stream
from mansard.device.tegrastats.tokens import TokenTable


def test_a_table_forgets_when_it_is_full() -> None:
    table = TokenTable(float)
    assert all(table[str(number)] == number for number in range(100_000))
    assert len(table) < 40_000
    table["1" * 200] = 0.0
    before = len(table)
    assert table["2" * 200] > 0
    assert len(table) == before  # a token that long is not worth remembering


def test_layouts_that_are_all_different_do_not_fill_the_memory() -> None:
    def lines(n_lines: int) -> Iterator[str]:
        return (f"RAM 1/2MB UNIT{number} 5 UNIT{number + 1} off" for number in range(n_lines))

    def peak_bytes(n_lines: int) -> int:
        tracemalloc.start()
        assert sum(1 for _ in stream(lines(n_lines))) == n_lines
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    peak_bytes(300)  # what is imported and remembered once for all
    # What tests before left behind would put the next whole collection of garbage off.
    gc.freeze()
    gc.collect()
    # A layout takes 3 kB, so 1700 more would be 5 MB; Python itself keeps up to 2000
    # freed tuples of each length, which is under 1 MB.
    more_bytes = peak_bytes(2000) - peak_bytes(300)
    gc.unfreeze()
    assert more_bytes < 2_000_000
