"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes is the machine's matter: under load a write to disk can wait.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data recorded by others; tests that ask for it skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared/data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the project")
    return folder
