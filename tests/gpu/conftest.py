"""The card, opened once; every test here skips by name where there is none.

``pytest tests/gpu --software-gpu`` opens one in software instead: it tries these tests themselves
where there is no card, and says nothing of any kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from mansard.core.errors import DeviceError, MeasurementError
from mansard.microbench.cuda.sampling import OpenGpu
from tools.card_check.opening import Card, open_card
from tools.card_check.software import H100, software_card

_FEW_SMS = 2  # of the software GPU, which computes every element by its reference


def pytest_addoption(parser: pytest.Parser) -> None:
    """An option for these tests, where their folder is named on the command line."""
    parser.addoption("--software-gpu", action="store_true", help="try tests/gpu without a card")


@pytest.fixture(scope="session")
def card(pytestconfig: pytest.Config) -> Card:
    """The first visible GPU with its meters, or one in software."""
    if pytestconfig.getoption("--software-gpu", default=False):
        return software_card("h100", msgspec.structs.replace(H100, n_sms=_FEW_SMS))
    try:
        return open_card(None)
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def opened(card: Card) -> OpenGpu:
    """The GPU alone."""
    return card.opened


@pytest.fixture(autouse=True)
def _end_where_the_gpu_is_lost(card: Card, request: pytest.FixtureRequest) -> Iterator[None]:
    """Stop where CUDA answers nothing any more: only a new process tells about the other tests."""
    yield
    runtime = card.opened.runtime
    try:
        runtime.synchronize(runtime.record())
    except MeasurementError as error:
        request.session.shouldstop = f"the GPU is lost: {error}"
