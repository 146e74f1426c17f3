"""Simulated boards for the tests of the device room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mansard.device.simulator import create_board, running


@pytest.fixture
def agx_orin(tmp_path: Path) -> Path:
    """A simulated AGX Orin in its default mode, 30W; nothing moves by itself."""
    return create_board("agx-orin", tmp_path)


@pytest.fixture
def running_agx_orin(agx_orin: Path) -> Iterator[Path]:
    """The same, switched on: its kernel answers and its sensors move."""
    with running(agx_orin) as root:
        yield root
