"""Networks that are drawn of public models have the parameters that their authors publish."""

from __future__ import annotations

import pytest

from mansard.core.records import ModelScore
from mansard.estimator import Given, Settings, score_loaded, totals
from mansard.estimator.decoding import Stage, with_stage
from mansard.estimator.language.catalogue import MODELS
from mansard.estimator.scoring import load_network

# LLaVA takes the states before CLIP's last block, which its files hold all the same: 4 x 1024
# squared and 2 x 1024 x 4096, 9 vectors of 1024 and one of 4096; its class token is left out too.
NOT_RUN = {"llava-1.5-7b": 4 * 1024**2 + 2 * 1024 * 4096 + 9 * 1024 + 4096 + 1024}


def score(name: str, stage: Stage, n_images: int | None) -> ModelScore:
    loaded = load_network(name)
    dims = {"images": n_images} if n_images is not None else {}
    given, _ = with_stage(loaded, Given(batch=1, dims=dims), stage)
    return score_loaded(loaded, Settings(given, kv_cache="in-place"))


def has_encoder(name: str) -> bool:
    return any(source.name == "v.patches" for source in load_network(name).model.inputs)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_all_published_parameters_are_in_the_network(name: str) -> None:
    counted = score(name, Stage(8, 0), 1 if has_encoder(name) else None)
    assert totals(counted).parameters == MODELS[name].n_parameters - NOT_RUN.get(name, 0)


def test_an_encoder_runs_once_for_each_image_and_not_at_all_without() -> None:
    none, one, two = (totals(score("llava-1.5-7b", Stage(1200, 0), n)) for n in (0, 1, 2))
    assert (two.macs or 0) - (one.macs or 0) == (one.macs or 0) - (none.macs or 0)
    # 576 patches of 14 x 14 x 3, 23 blocks of 12 · 1024² products a patch and 2 · 1024 for each
    # pair of patches, then 1024 x 4096 and 4096 x 4096.
    encoder = 576 * (1024 * 588 + 23 * (12 * 1024**2 + 2 * 1024 * 576) + 4096 * (1024 + 4096))
    assert (one.macs or 0) - (none.macs or 0) == encoder
    # Without an image no matrix of the encoder is read, though all of them are stored.
    assert none.weight_bytes == one.weight_bytes
    assert (one.traffic_bytes or 0) - (none.traffic_bytes or 0) > 2 * 0.29e9
