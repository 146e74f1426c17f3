"""Tables of language models: rates and times of tokens become figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.analytics.data.published.importing import import_files
from mansard.analytics.data.published.language_columns import figure_of
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.core.errors import InputError
from mansard.core.records import PublishedRun

ORIGIN = PublishedOrigin(device="Jetson AGX Thor", processor="gpu", citation="A. Author, 2026")


def runs_of(folder: Path, text: str, **said: str) -> tuple[PublishedRun, ...]:
    path = folder / "table.csv"
    path.write_text(text)
    ((imported,),) = import_files([path], ORIGIN, fixed={"mode": "MAXN"}, said=said)
    return imported.runs


@pytest.mark.parametrize(
    ("column", "name", "factor"),
    [
        ("ttft_ms", "first_token_s", 1e-3),
        ("Mean TTFT (ms)", "first_token_mean_s", 1e-3),
        ("p99_tpot_ms", "token_p99_s", 1e-3),
        ("decode_ms_per_token", "token_s", 1e-3),
        ("tokens_per_s", "tokens_per_s", 1.0),
        ("output_tok_s", "tokens_per_s", 1.0),
        ("prefill_tps", "prefill_tokens_per_s", 1.0),
        ("generation_tok_s", "decode_tokens_per_s", 1.0),
        ("e_tok_mj", "energy_per_token_j", 1e-3),
        ("file_gb", "model_size_bytes", 1e9),
    ],
)
def test_columns_by_their_names(column: str, name: str, factor: float) -> None:
    figure = figure_of(column)
    assert figure is not None
    assert (figure.name, figure.factor) == (name, factor)


@pytest.mark.parametrize("column", ["latency_ms", "fps", "power_w", "prefill_ms", "gpu_mhz"])
def test_columns_of_networks_are_not_theirs(column: str) -> None:
    assert figure_of(column) is None


def test_rates_of_a_depth(tmp_path: Path) -> None:
    first, second = runs_of(
        tmp_path, "model,depth,pp2048_tok_s,tg128_tok_s\nm,0,150,16\nm,4096,140,15\n"
    )
    assert first.network == "m 2048in/128out"
    assert second.network == "m 2048in/128out @ d4096"
    assert first.figures == {
        "depth_tokens": 0,
        "prompt_tokens": 2048,
        "generated_tokens": 128,
        "prefill_tokens_per_s": 150,
        "decode_tokens_per_s": 16,
    }
    assert first.latency_s is None


def test_tests_and_formats_in_cells(tmp_path: Path) -> None:
    table = "model,quant,test,tokens_per_s,tok_per_j\nm,Q4_K_M,pp512,1024,4\nm,f16_fa,tg64,20,-\n"
    prefill, decode = runs_of(tmp_path, table)
    assert (prefill.network, prefill.weights, prefill.precision) == ("m 512in", "Q4_K_M", "int8")
    assert prefill.figures["prefill_tokens_per_s"] == 1024
    assert prefill.figures["energy_per_token_j"] == 0.25  # 1 / 4
    # What is no format stays a word of the name.
    assert (decode.network, decode.weights, decode.precision) == ("m f16_fa 64out", "", None)
    assert decode.figures["decode_tokens_per_s"] == 20


def test_several_columns_tell_repeats_apart(tmp_path: Path) -> None:
    table = "model,load,clocks,ttft_ms\nm,low,0,30\nm,low,1,20\nm,high,0,50\n"
    with pytest.raises(InputError, match="lines 2 and 3 are both 'm'"):
        runs_of(tmp_path, table, repeat="load")
    runs = runs_of(tmp_path, table, repeat="load+clocks")
    assert [run.figures["first_token_s"] for run in runs] == pytest.approx([0.03, 0.02, 0.05])


def test_a_rate_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 2"):
        runs_of(tmp_path, "model,tokens_per_s\nm,fast\n")
