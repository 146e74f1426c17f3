"""Memory is constant: tables and layouts forget, whatever a log makes them see."""

from __future__ import annotations

import subprocess
import sys

from mansard.device.tegrastats.tokens import TokenTable


def test_a_table_forgets_when_it_is_full() -> None:
    table = TokenTable(float)
    assert all(table[str(number)] == number for number in range(100_000))
    assert len(table) < 40_000
    table["1" * 200] = 0.0
    before = len(table)
    assert table["2" * 200] > 0
    assert len(table) == before  # a token that long is not worth remembering


_PEAKS = """
import tracemalloc
from mansard.device.tegrastats import stream

def peak_bytes(n_lines):
    tracemalloc.start()
    lines = (f"RAM 1/2MB UNIT{number} 5 UNIT{number + 1} off" for number in range(n_lines))
    assert sum(1 for _ in stream(lines)) == n_lines
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak

peak_bytes(300)  # what is imported and remembered once for all
print(peak_bytes(2000) - peak_bytes(300))
"""


def test_layouts_that_are_all_different_do_not_fill_the_memory() -> None:
    # In a process of its own: what other tests leave behind puts collections of garbage off.
    done = subprocess.run([sys.executable, "-c", _PEAKS], capture_output=True, check=True)
    # A layout takes 3 kB, so 1700 more would be 5 MB; Python itself keeps up to 2000
    # freed tuples of each length, which is under 1 MB.
    assert int(done.stdout) < 2_000_000
