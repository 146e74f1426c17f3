"""Imported runs of language models are prefills and decodes, by the names of their scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from mansard.analytics.data.published.importing import import_files
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.analytics.data.published.stages import split_workload
from mansard.analytics.data.published.store import Published, published_observations
from tests.analytics.test_published_serving import VLLM
from tests.analytics.test_published_tools import LLAMA

ORIGIN = PublishedOrigin(device="Board", processor="gpu", citation="A. Author, 2026")
NAMED = {"mode": "MAXN", "network": "llama-3.1-8b:F16"}
PREFILL = LLAMA | {"n_prompt": 512, "n_gen": 0, "avg_ns": 5e8, "samples_ns": [5e8]}
DECODE = LLAMA | {"n_prompt": 0, "n_gen": 128, "avg_ns": 4e9, "samples_ns": [4e9]}


def stages(
    folder: Path, text: str, name: str = "runs.json", fixed: Mapping[str, str] = NAMED
) -> pl.DataFrame:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (imported,) = import_files([path], ORIGIN, fixed=fixed)[0]
    rows = published_observations(Published(imported.rates, imported.runs))
    return rows.select("network", "batch", "precision", "latency_s", "power_w")


def test_tests_of_llama_bench_are_stages(tmp_path: Path) -> None:
    # 128 tokens in 4 s behind nothing: the 64th is the mean, 31.25 ms.
    # Behind 4096 tokens it is the 4160th; a prompt behind tokens is no prefill.
    deep = [test | {"n_depth": 4096} for test in (PREFILL, DECODE)]
    rows = stages(tmp_path, json.dumps([PREFILL, DECODE, *deep]))
    assert rows.rows() == [
        ("llama-3.1-8b:F16 [prefill 512]", 1, None, 0.5, None),
        ("llama-3.1-8b:F16 [decode 64]", 1, None, 0.03125, None),
        ("llama-3.1-8b:F16 pp512 @ d4096", 1, "fp16", 0.5, None),
        ("llama-3.1-8b:F16 [decode 4160]", 1, None, 0.03125, None),
    ]


def test_a_prompt_with_its_answer_is_a_run(tmp_path: Path) -> None:
    both = LLAMA | {"n_prompt": 512, "n_gen": 128, "avg_ns": 5e9, "samples_ns": [5e9]}
    (row,) = stages(tmp_path, json.dumps([both])).rows()
    assert row[0] == "llama-3.1-8b:F16 pp512+tg128"


def test_servers_give_steps_and_first_tokens_of_single_requests(tmp_path: Path) -> None:
    # 512 tokens in and 128 out: the step in the middle is behind 512 + 64.
    several = stages(tmp_path, json.dumps(VLLM))
    assert several.rows()[0] == ("llama-3.1-8b:F16 [decode 576]", 4, None, 0.025, None)
    assert several.filter(pl.col("network").str.contains("prefill")).is_empty()  # others came first
    alone = stages(tmp_path, json.dumps(VLLM | {"max_concurrency": 1}))
    assert alone.rows() == [
        ("llama-3.1-8b:F16 [decode 576]", 1, None, 0.025, None),
        ("llama-3.1-8b:F16 [prefill 512]", 1, None, 0.5, None),
        ("llama-3.1-8b:F16 512in/128out", 1, None, None, None),
    ]


def test_the_power_of_a_table_is_that_of_its_only_phase(tmp_path: Path) -> None:
    # 100 tokens at 40 a second; 256 of a prompt at 512 a second
    table = (
        "mode,network,test,tokens_per_s,power_w\nMAXN,qwen,tg100,40,12\nMAXN,qwen,pp256,512,15\n"
    )
    rows = stages(tmp_path, table, "table.csv", fixed={})
    assert rows.select("network", "latency_s", "power_w").rows() == [
        ("qwen [decode 50]", 0.025, 12.0),
        ("qwen [prefill 256]", 0.5, 15.0),
    ]


@pytest.mark.parametrize(("second", "ignored"), [("pp256", ()), ("pp256+tg64", ("test",))])
def test_a_column_of_tests_is_read_where_all_its_cells_are(
    tmp_path: Path, second: str, ignored: tuple[str, ...]
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(f"mode,network,test,tokens_per_s\nMAXN,a,tg100,40\nMAXN,a,{second},512\n")
    (imported,) = import_files([path], ORIGIN)[0]
    assert imported.ignored == ignored


@pytest.mark.parametrize(
    ("network", "model", "tests"),
    [
        ("llama 8B Q4_K - Medium tg128 @ d4096", "llama 8B Q4_K - Medium", " tg128 @ d4096"),
        ("qwen 512in/128out x3.5", "qwen", " 512in/128out x3.5"),
        ("qwen 32in", "qwen", " 32in"),
        ("resnet50", "resnet50", ""),
        ("pp512", "pp512", ""),
        ("", "", ""),
    ],
)
def test_a_name_is_split_before_its_tokens(network: str, model: str, tests: str) -> None:
    assert split_workload(network) == (model, tests)
