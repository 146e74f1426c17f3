"""The real card, opened once; every test here skips by name where there is none."""

from __future__ import annotations

import pytest

from mansard.microbench.cuda.probe import probe_gpu
from mansard.microbench.cuda.sampling import OpenGpu, open_gpu


@pytest.fixture(scope="session")
def opened() -> OpenGpu:
    """The first visible GPU."""
    found = probe_gpu()
    if found.gpu is None:
        pytest.skip(f"no GPU to measure: {found.reason}")
    return open_gpu()
