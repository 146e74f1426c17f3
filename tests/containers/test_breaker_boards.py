"""A board that goes away while it is held: never taken for one that was put back."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.device.controller import LocalController
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.restoring import restore
from mansard.simulator import create_board, running, snapshot


def test_a_board_that_was_moved_meanwhile_is_not_put_back_in_silence(tmp_path: Path) -> None:
    away = tmp_path / "away"
    with running(create_board("agx-orin", tmp_path)) as root:
        found = snapshot(root)
        (mode,) = LocalController(root).choose_modes("15W")
        with ExitStack() as stack:
            held = stack.enter_context(hold_machine(root, settle_s=0))
            held.set(mode)
            root.rename(away)
            with pytest.raises(
                DeviceError, match="missing, and with it the settings to restore"
            ) as told:
                stack.close()
        assert "mansard board restore" in str(told.value)
        away.rename(root)
        assert snapshot(root) != found
        assert restore(root) is not None
        assert snapshot(root) == found
