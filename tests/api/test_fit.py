"""Models in the memory of machines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mansard import api
from mansard.core.errors import UsageError
from mansard.estimator.engine_memory import ENGINES
from tests.cli.decide_runs import answer, document

MIB, GIB = 1 << 20, 1 << 30
MEMINFO = """MemTotal:       127599616 kB
MemFree:         2904555 kB
MemAvailable:   54525952 kB
"""


def _root(folder: Path, text: str) -> Path:
    (folder / "proc").mkdir()
    (folder / "proc/meminfo").write_text(text, "utf-8")
    return folder


def test_what_linux_can_free_counts_as_free(tmp_path: Path) -> None:
    # llamastash 80: 2.77 GiB are free and 52 GiB available; 40 GiB of weights fit
    (fits,) = api.fit(["llama-3.3-70b:Q4_K_M"], board=_root(tmp_path, MEMINFO))
    assert fits.capacity.low_bytes == 54525952 * 1024 == 52 * GIB
    weights = fits.needs[0].low_bytes
    assert 39 * GIB < weights < 40.5 * GIB
    assert (fits.verdict, fits.needs[0].part) == ("fits", "weights")


@pytest.mark.shared_data
def test_the_recorded_machine_gives_what_is_available(shared_data: Path, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    shutil.copy(shared_data / "cases/15/proc_meminfo", tmp_path / "proc/meminfo")
    (fits,) = api.fit(["llama-3.3-70b:Q4_K_M"], board=tmp_path)
    assert (fits.capacity.low_bytes, fits.verdict) == (52 * GIB, "fits")


def test_parts_by_hand() -> None:
    (fits,) = api.fit(["llama-3.1-8b:Q4_K_M"], board="agx-orin-32gb", context=4096, batch=3)
    parts = {need.part: need for need in fits.needs}
    # keys and values of 32 layers, 8 heads of 128 numbers in fp16, for 4096 tokens, 3 sequences
    cache = 2 * 32 * 8 * 128 * 2 * 4096 * 3
    assert (parts["KV cache"].low_bytes, cache) == (cache, 1536 * MIB)
    # logits of 512 tokens x 128,256 words x 4 bytes are in the most of the activations
    least, most = parts["activations"].low_bytes, parts["activations"].high_bytes
    assert most - 512 * 128256 * 4 > least
    assert parts["CUDA context"].low_bytes == ENGINES["llama.cpp"].context[0]
    assert fits.low_bytes == sum(need.low_bytes for need in fits.needs)


def test_llama_cpp_s_cache_is_fp16_whatever_the_weights_are(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "torch_dtype": "float32",
    }
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    (fits,) = api.fit([tmp_path], board="nano-4gb", engine="llama.cpp")
    # keys and values of 2 layers, 4 heads of 16 numbers in fp16, for 4096 tokens
    assert fits.needs[1].low_bytes == 2 * 2 * 4 * 16 * 2 * 4096
    assert fits.model == tmp_path.name
    (full,) = api.fit([f"{tmp_path}:kv=fp32"], board="nano-4gb", engine="llama.cpp")
    assert full.needs[1].low_bytes == 2 * fits.needs[1].low_bytes


@pytest.mark.parametrize(("model", "step"), [("llama-3.2-1b:Q8_0", 256), ("tinyllama-1.1b", 256)])
def test_the_longest_context_and_the_largest_batch_fit_and_no_more_does(
    model: str, step: int
) -> None:
    board = "orin-nano-8gb"
    (asked,) = api.fit([model], board=board, context=1024)
    longest, largest = asked.longest_context, asked.largest_batch
    assert longest is not None
    assert largest is not None
    fits = [
        api.fit([model], board=board, context=context, batch=batch)[0].verdict == "fits"
        for context, batch in ((longest, 1), (1024, largest), (1024, largest + 1))
    ]
    assert fits == [True, True, False]
    most = 2048 if model.startswith("tiny") else 131072
    if longest + step <= most:
        assert api.fit([model], board=board, context=longest + step)[0].verdict != "fits"


def test_a_smaller_format_that_fits_is_named_and_fits() -> None:
    (large,) = api.fit(["llama-3.1-8b"], board="orin-nx-16gb")
    assert (large.verdict, large.smaller) == ("does not fit", "Q8_0")
    (small,) = api.fit(["llama-3.1-8b:Q8_0"], board="orin-nx-16gb")
    assert small.verdict == "fits"


def test_it_fits_with_less() -> None:
    (long,) = api.fit(["llama-3.2-3b:Q8_0"], board="orin-nano-8gb", context=65536)
    assert long.verdict == "fits with less"
    assert long.longest_context is not None
    assert long.less == f"a context of {long.longest_context:,} tokens"


def test_a_tensorrt_build_has_needs_of_its_own() -> None:
    (fits,) = api.fit(["vgg16"], board="orin-nano-8gb")
    assert (fits.engine, fits.verdict) == ("tensorrt", "fits")
    assert fits.build is not None
    # vgg16: 138,357,544 parameters of fp32; two to four copies while it is built
    assert fits.build.needs[0].low_bytes == 2 * 4 * 138_357_544
    assert fits.build.needs[0].high_bytes == 4 * 4 * 138_357_544
    (ort,) = api.fit(["vgg16"], board="orin-nano-8gb", engine="ort")
    assert ort.build is None


def test_vllm_has_a_share_of_all_memory() -> None:
    (fits,) = api.fit(["llama-3.1-8b"], board="agx-orin-32gb", engine="vllm")
    assert fits.capacity.low_bytes <= 0.9 * fits.capacity.total_bytes
    assert any("gpu-memory-utilization" in line for line in fits.notes)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("resnet18", "--context", "128"), "--context is for language models"),
        (("resnet18", "--engine", "vllm"), "vllm runs language models"),
        (("resnet18", "--board", "orin"), "several modules are called 'orin'"),
        (("resnet18", "--board", "thor", "--here"), "--here and --board exclude each other"),
        (("tinyllama-1.1b", "--context", "4096"), "was trained for 2,048 tokens, not 4,096"),
    ],
)
def test_wrong_usage_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], fault: str
) -> None:
    code, out, err = answer(capsys, "fit", *arguments)
    assert (code, out) == (2, "")
    assert fault in err
    assert err.count("\n") == 1


def test_the_command_prints_the_parts_and_the_same_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("fit", "llama-3.1-8b:Q8_0", "--board", "orin-nano-8gb")
    code, out, _ = answer(capsys, *words)
    assert code == 0
    assert out.startswith("llama-3.1-8b:Q8_0 does not fit")
    (fits,) = document(capsys, *words)["fits"]
    assert f"next smaller format that fits: {fits['smaller']}" in out
    assert sum(need["low_bytes"] for need in fits["needs"]) == fits["low_bytes"]


def test_files_of_the_estimator_without_a_name_are_refused() -> None:
    with pytest.raises(UsageError, match="no network or language model is called"):
        api.fit(["llama-9"], board="thor")
