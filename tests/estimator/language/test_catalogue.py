"""Public models: the sum of our tensors against the parameters that each publishes."""

from __future__ import annotations

import pytest

from mansard.core.errors import UsageError
from mansard.estimator.language.catalogue import MODELS, architecture
from mansard.estimator.language.tensors import n_parameters


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_that_are_published(name: str) -> None:
    assert n_parameters(architecture(name).weights) == MODELS[name].n_parameters


def test_an_unknown_name_lists_those_that_are_known() -> None:
    with pytest.raises(UsageError, match=r"'gpt-5'; use one of tinyllama-1\.1b"):
        architecture("gpt-5")
