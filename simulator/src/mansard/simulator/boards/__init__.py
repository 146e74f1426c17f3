"""The simulated boards: one table each, and by name."""

from __future__ import annotations

from mansard.simulator.boards.agx_orin import AGX_ORIN
from mansard.simulator.boards.orin_nano import ORIN_NANO_SUPER
from mansard.simulator.boards.spec import BoardSpec
from mansard.simulator.boards.thor import THOR
from mansard.simulator.boards.tx2 import TX2
from mansard.simulator.boards.xavier_nx import XAVIER_NX

BOARDS: tuple[BoardSpec, ...] = (AGX_ORIN, ORIN_NANO_SUPER, XAVIER_NX, TX2, THOR)
BY_NAME: dict[str, BoardSpec] = {board.name: board for board in BOARDS}
