"""llama-bench's JSON: which commands print it, and the rates in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.formats.llama_bench import bench_rates, bench_test_name, prints_bench_json


@pytest.mark.parametrize(
    ("command", "is_read"),
    [
        (("llama-bench", "-m", "a.gguf", "-o", "json"), True),
        (("sudo", "/opt/llama.cpp/llama-bench", "--output", "jsonl"), True),
        (("./llama-bench", "--output=json"), True),
        (("llama-bench", "-m", "json"), False),
        (("llama-bench", "-o", "md"), False),
        (("llama-bench",), False),
        (("cat", "-o", "json"), False),
        ((), False),
    ],
)
def test_commands(command: tuple[str, ...], is_read: bool) -> None:
    assert prints_bench_json(command) == is_read


def test_names() -> None:
    assert bench_test_name(512, 0, 0) == "pp512"
    assert bench_test_name(0, 128, 4096) == "tg128 @ d4096"
    assert bench_test_name(512, 128, 0) == "pp512+tg128"


TESTS = [
    {"model_type": "llama 1B Q4_0", "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 100.5},
    {"model_type": "llama 1B Q4_0", "n_prompt": 0, "n_gen": 128, "avg_ts": 20.0},
    {"model_type": "llama 1B Q4_0", "n_prompt": 0, "n_gen": 128, "avg_ts": 25.0},
]


def test_rates_of_both_forms() -> None:
    wanted = {"pp512": 100.5, "tg128": 20.0, "tg128 #2": 25.0}
    assert bench_rates(json.dumps(TESTS, indent=2).encode()) == wanted
    assert bench_rates("\n".join(map(json.dumps, TESTS)).encode()) == wanted


@given(st.binary(max_size=200))
def test_any_output_is_rates_or_none(output: bytes) -> None:
    assert isinstance(bench_rates(output), dict)


def test_what_is_cut_has_none() -> None:
    assert bench_rates(json.dumps(TESTS).encode()[:-5]) == {}
    assert bench_rates(b"") == {}
