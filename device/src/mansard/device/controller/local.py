"""The controller of the machine that this process runs on, or of a simulated board beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from mansard.core.errors import UsageError
from mansard.core.records import MachineIdentity, PowerMode
from mansard.device.choosing.choice import choose_modes
from mansard.device.clocks.nodes import find_clocks
from mansard.device.controller.reboots import modes_that_need_a_reboot
from mansard.device.holding.acting import OnStep, quietly
from mansard.device.holding.hold import SETTLE_S, Hold
from mansard.device.holding.pending import restore
from mansard.device.holding.planning import planned_steps
from mansard.device.identity import SIMULATED_MARK, identify, is_simulated
from mansard.device.system import SYSTEM_ROOT


class LocalHold(Hold):
    """A hold that also finds out which modes need a reboot.

    It is a Hold and does not wrap one: a signal between the end of the block and ``Hold``'s
    own ``__exit__`` would else leave the machine as it is.
    """

    def __init__(self, root: Path, on_step: OnStep, settle_s: float) -> None:
        super().__init__(root, on_step, settle_s)
        self._board = root

    def __enter__(self) -> LocalHold:
        super().__enter__()
        return self

    @property
    def left_behind(self) -> tuple[str, ...]:
        """What an interrupted run had left, in lines."""
        return self.restored.lines() if self.restored is not None else ()

    def needing_reboot(self, modes: Sequence[PowerMode]) -> Mapping[str, str]:
        """The board's own modes that need a reboot: name -> the tool's words."""
        return modes_that_need_a_reboot(self._board, modes)


class LocalController:
    """Knows and changes the machine under ``root``; raises UsageError for any other folder."""

    def __init__(
        self,
        root: Path = SYSTEM_ROOT,
        *,
        on_step: OnStep = quietly,
        settle_s: float = SETTLE_S,
    ) -> None:
        check_root(root)
        self._root = root
        self._on_step = on_step
        self._settle_s = settle_s

    @cached_property
    def _machine(self) -> MachineIdentity:
        return identify(self._root)

    def identify(self) -> MachineIdentity:
        """Which machine it is."""
        return self._machine

    def choose_modes(
        self, text: str | None, pick: int | None = None, *, grid: str | None = None
    ) -> tuple[PowerMode, ...]:
        """The modes that ``text`` asks for; ``grid``: what the file that it names holds."""
        return choose_modes(text, self._root, self._machine, pick=pick, grid=grid)

    def planned_steps(self, modes: Sequence[PowerMode]) -> tuple[tuple[str, ...], ...]:
        """What setting each of ``modes`` would do now, in lines."""
        clocks = find_clocks(self._root)  # once: a grid can have thousands of modes
        return tuple(
            tuple(str(step) for step in planned_steps(self._root, mode, clocks)) for mode in modes
        )

    def put_back(self) -> tuple[str, ...]:
        """Put back what an interrupted run had left, in lines."""
        restored = restore(self._root, on_step=self._on_step)
        return restored.lines() if restored is not None else ()

    def hold(self) -> LocalHold:
        """The machine, held for one sweep."""
        return LocalHold(self._root, self._on_step, self._settle_s)


def check_root(root: Path) -> None:
    """Raises UsageError unless it is this machine's root, or a simulated board's.

    Any other folder would be taken for the machine that we run on.
    """
    if root.resolve() != SYSTEM_ROOT and not is_simulated(root):
        raise UsageError(
            f"{str(root)!r} is no simulated board: it has no {SIMULATED_MARK}",
            fix="'mansard demo simulated' makes one; without a folder the machine itself is meant",
        )
