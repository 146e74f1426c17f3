"""The simulated boards: one table each, and by name."""

from __future__ import annotations

from mansard.device.simulator.boards.agx_orin import AGX_ORIN
from mansard.device.simulator.figures import Figures

BOARDS: tuple[Figures, ...] = (AGX_ORIN,)
BY_NAME: dict[str, Figures] = {board.name: board for board in BOARDS}
