"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of data recorded by others; tests that ask for it skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared/data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the project")
    return folder
