"""llama.cpp loads and runs a model of each family: it knows our tensors, bytes and caches."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.estimator.language.reading import read_language_model
from mansard.estimator.language.tensors import n_parameters
from tests.estimator.language.gguf_files import N_TOKENS, write
from tests.estimator.language.small_configs import CASES, config
from tests.estimator.language.small_models import score_stage

pytest.importorskip("xllamacpp", reason="llama.cpp is not installed (make llm)")

N_CONTEXT = 1024
_RUN = f"""
import json, os, sys, urllib.request, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.hostnames, params.port = sys.argv[1], ["127.0.0.1"], 0
params.n_parallel, params.n_ctx, params.verbosity = 1, {N_CONTEXT}, 4
server = xllamacpp.Server(params)
body = json.dumps({{"prompt": "w001 w002", "n_predict": 4, "ignore_eos": True}}).encode()
request = urllib.request.Request(server.listening_address + "/completion", body)
print("generated", json.load(urllib.request.urlopen(request))["tokens_predicted"], flush=True)
os._exit(0)
"""
# It reads a model without a compressed query only where there are 27 blocks, as V2-Lite has.
_QUERY = {"q_lora_rank": 256}


def figure(log: str, pattern: str) -> float:
    """The one number that the log has there."""
    match = re.search(pattern, log)
    assert match is not None, log[-2000:]
    return float(match[1])


@pytest.mark.parametrize("case", CASES)
def test_llama_cpp_runs_what_is_read(case: str, tmp_path: Path) -> None:
    query = _QUERY if case.startswith("deepseek") else {}
    sizes = config(case.split(maxsplit=1)[0], **{**CASES[case], **query, "vocab_size": N_TOKENS})
    path = write(tmp_path / "model.gguf", sizes, "Q8_0", is_runnable=True)
    command = [sys.executable, "-c", _RUN, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    log = done.stdout + done.stderr
    assert "generated 4" in log, log[-2000:]
    read = read_language_model(path)
    n_bytes = sum(weight.n_bytes for weight in read.weights.values())
    mib, million = 1 << 20, 1e6
    assert n_bytes / mib == pytest.approx(figure(log, r"file size += ([\d.]+) MiB"), abs=0.006)
    n_weights = figure(log, r"model params += ([\d.]+) M")
    assert n_parameters(read.weights) / million == pytest.approx(n_weights, abs=0.006)
    if read.blocks[0].attention.window is None:  # it keeps more than a window
        cache = score_stage(read, 1, N_CONTEXT - 1).kv_cache_bytes
        assert cache is not None
        in_llama = figure(log, r"llama_kv_cache: size = +([\d.]+) MiB")
        assert cache / mib == pytest.approx(in_llama, abs=0.006)
