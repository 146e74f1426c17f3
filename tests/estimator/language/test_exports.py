"""DrawnModel language models against the same networks as PyTorch exports them.

``recorded_exports`` holds four small models with random weights, exported by torch 2.15 and
Transformers 5.24 (``torch.onnx.export`` with ``dynamo=True``, ``logits_to_keep=1``), without the
contents of their weights, each beside its config.json.
"""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import ModelScore
from mansard.estimator import Given, Loaded, Settings, load, score_loaded, totals
from mansard.estimator.decoding import Stage, with_stage
from mansard.estimator.scoring import load_network
from tests.estimator.language.gguf_files import write

EXPORTS = Path(__file__).parent / "recorded_exports"
# What an export stores beside the model's weights: the frequencies of the rotation, half a head of
# fp32 numbers; of gemma also the norms, (1 + w) in fp32 instead of w in fp16, 9 of 64.
MORE_BYTES = {"llama": 8 * 4, "qwen3": 16 * 4, "phi3": 8 * 4, "gemma2": 16 * 4 + 9 * 64 * 2}
NORM = "RMSNormalization"
OF_HEADS = {"qwen3": 2 * 2 * 32}  # norms of queries and keys, which the attention holds
STAGES = ((Stage(128, 0), 1), (Stage(1, 100), 3), (Stage(7, 120), 2))


def score(network: Loaded, stage: Stage, batch: int) -> ModelScore:
    given, notes = with_stage(network, Given(batch=batch), stage)
    assert notes == ()
    return score_loaded(network, Settings(given, kv_cache="in-place"))


@pytest.fixture(params=sorted(MORE_BYTES))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Loaded, Loaded]:
    """The name of a model, what is drawn of its config.json, and its export."""
    name = request.param
    folder = tmp_path / name
    folder.mkdir()
    shutil.copy(EXPORTS / f"{name}.json", folder / "config.json")
    exported = gzip.decompress((EXPORTS / f"{name}.onnx.gz").read_bytes())
    return name, load_network(folder), load(exported, name)


@pytest.mark.parametrize("name", sorted(MORE_BYTES))
def test_a_gguf_file_counts_as_the_configuration(name: str, tmp_path: Path) -> None:
    sizes = msgspec.json.decode((EXPORTS / f"{name}.json").read_bytes())
    sizes.setdefault("head_dim", 16)
    shutil.copy(EXPORTS / f"{name}.json", tmp_path / "config.json")
    path = write(tmp_path / "model.gguf", sizes, matrices="fp16")
    for stage, batch in STAGES:
        one, other = (score(load_network(at), stage, batch) for at in (tmp_path, path))
        assert totals(one).macs == totals(other).macs
        assert totals(one).parameters == totals(other).parameters
        assert one.kv_cache_bytes == other.kv_cache_bytes
        # llama.cpp stores vectors, which are norms here, in fp32.
        n_of_norms = sum(row.parameters or 0 for row in one.layers if row.op_type == NORM)
        more_bytes = (totals(other).weight_bytes or 0) - (totals(one).weight_bytes or 0)
        assert more_bytes == 2 * (n_of_norms + OF_HEADS.get(name, 0))


@pytest.mark.parametrize(("stage", "batch"), STAGES)
def test_multiply_adds_and_caches_are_those_of_the_export(
    pair: tuple[str, Loaded, Loaded], stage: Stage, batch: int
) -> None:
    drawn, exported = (score(network, stage, batch) for network in pair[1:])
    assert totals(drawn).macs == totals(exported).macs
    assert drawn.kv_cache_bytes == exported.kv_cache_bytes


def test_weights_are_those_of_the_export(pair: tuple[str, Loaded, Loaded]) -> None:
    name, *networks = pair
    drawn, exported = (totals(score(n, *STAGES[0])).weight_bytes or 0 for n in networks)
    assert exported - drawn == MORE_BYTES[name]
