"""Fixtures for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Two sessions share two cores with boards whose meters are read while kernels run: frames that
# take both cores for a second would leave gaps in those readings.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

# How long an example takes is the machine's matter: under load a write to disk can wait.
# A change is judged by the same examples on every machine; `make test-random` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=1000)
settings.load_profile("same")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data recorded by others; tests that ask for it skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared/data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the project")
    return folder


@pytest.fixture
def as_in_a_terminal() -> Iterator[None]:
    """No signal is ignored: tests that run under nohup have SIGHUP so, and hand it on."""
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, usual)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
