"""llama-bench's tests: their names, and their rates in its JSON (``-o json``, ``-o jsonl``).

Source: ggml-org/llama.cpp, tools/llama-bench: ``avg_ts`` is the mean of tokens/s over the
repetitions of a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

import msgspec

from mansard.core.processes.line_channel import DECODE_ERRORS

_NAME = "llama-bench"


class _TestRate(msgspec.Struct):
    """What is read of one test."""

    n_prompt: int
    n_gen: int
    avg_ts: float
    n_depth: int = 0


def bench_test_name(n_prompt: int, n_gen: int, n_depth: int) -> str:
    """``pp512``, ``tg128``, ``pp512+tg128 @ d4096``."""
    parts = [f"pp{n_prompt}"] * bool(n_prompt) + [f"tg{n_gen}"] * bool(n_gen)
    return "+".join(parts) + (f" @ d{n_depth}" if n_depth else "")


def prints_bench_json(command: Sequence[str]) -> bool:
    """Whether a command is llama-bench with JSON on its output."""
    words = [word for option in command for word in option.split("=", 1)]
    formats = {after for word, after in pairwise(words) if word in {"-o", "--output"}}
    is_bench = any(PurePath(word).name == _NAME for word in command)
    return is_bench and bool(formats & {"json", "jsonl"})


def bench_rates(output: bytes) -> dict[str, float]:
    """Tokens/s of each test that llama-bench printed; empty where it is none of its JSON.

    Tests that differ in other settings alone are numbered: ``tg128``, ``tg128 #2``.
    """
    text = output.strip()
    try:
        if text.startswith(b"["):
            tests = msgspec.json.decode(text, type=list[_TestRate])
        else:
            tests = msgspec.json.Decoder(_TestRate).decode_lines(text)
    except DECODE_ERRORS:
        return {}
    rates: dict[str, float] = {}
    for one in tests:
        name = bench_test_name(one.n_prompt, one.n_gen, one.n_depth)
        n_same = sum(known.partition(" #")[0] == name for known in rates)
        rates[f"{name} #{n_same + 1}" if n_same else name] = one.avg_ts
    return rates
