"""One board or machine: its root folder, its power modes, and how it is put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.api.result import Result
from mansard.containers.fleet import Fleet, run_fleet
from mansard.containers.hosts import read_hosts
from mansard.core.errors import UsageError
from mansard.device.holding.restoring import Restored, planned_restore
from mansard.device.holding.restoring import restore as restore_machine
from mansard.device.identity import identify, is_jetson
from mansard.device.nvpmodel.config import CONFIG_PATH
from mansard.device.power_modes.listing import (
    Listing,
    list_board,
    list_config,
)
from mansard.device.power_modes.selection import (
    available_modes,
    mode_notes,
)
from mansard.device.system import SYSTEM_ROOT, board_root
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.core.records import PowerMode


class AvailableModes(Result, frozen=True):
    """The power modes of a machine that is no Jetson: core counts, or those of its card.

    ``machine``: the processor, or the card, that they are modes of. ``notes``: what can be set
    beside them, and what that needs.
    """

    machine: str
    modes: tuple[PowerMode, ...]
    notes: tuple[str, ...]


def modes(board: Path | None = None, config: Path | None = None) -> Listing | AvailableModes:
    """The power modes with their clocks, and the peaks that follow from them.

    ``board``: the root folder of a board, this machine's by default. ``config``: an
    nvpmodel.conf, or a dump of ``nvpmodel -p --verbose``, to list instead. Peaks are modelled
    from the table of modules, not measured; nothing is set. Raises UsageError where both are
    given, DeviceError, InputError.
    """
    if board is not None and config is not None:
        raise UsageError("--board and --config exclude each other", fix="name one of them")
    if config is not None:
        return list_config(config)
    root = board or SYSTEM_ROOT
    if board is not None or _has_nvpmodel(root):
        return list_board(root)
    machine = identify(root)
    name = machine.accelerators[0] if machine.kind == "gpu" else machine.name
    return AvailableModes(name, available_modes(root, machine), mode_notes(root, machine))


def _has_nvpmodel(root: Path) -> bool:
    path = root.joinpath(*Path(CONFIG_PATH).parts[1:])
    return path.is_symlink() or path.exists() or is_jetson(root)


def restore(
    board: Path | None = None, reporter: Reporter = SILENT, *, is_dry_run: bool = False
) -> Restored | None:
    """Restore the clocks, cores and power mode that an interrupted bench changed.

    A bench does so itself unless a power cut or SIGKILL ends it. None if no run was interrupted.
    Raises DeviceError if something could not be restored; the record is kept then.
    ``is_dry_run``: nothing is changed; the result has what would be set.
    """
    if is_dry_run:
        return planned_restore(board_root(board))
    return restore_machine(board_root(board), on_step=lambda step: reporter.note(str(step)))


def restore_hosts(
    hosts: Sequence[str],
    hosts_file: Path | None = None,
    images: Path | None = None,
    reporter: Reporter = SILENT,
    *,
    is_dry_run: bool = False,
) -> Fleet[tuple[str, ...]]:
    """Restore boards over the network: for each the restored settings, in lines, or an error.

    All boards are restored at once, over ssh if the user who logs in has the rights, else in a
    container there. ``hosts``: user@board, or names in ``hosts_file``. ``images``: TOML file that
    adds images. ``is_dry_run``: nothing is changed; the lines are what would be set. A board that
    fails does not stop the others; ``check`` of the result raises its error. Raises UsageError and
    InputError for invalid hosts.
    """
    from mansard.sweeps.host_targets import restore_host
    from mansard.sweeps.targets import WantedImage

    wanted = WantedImage(table=images)
    return run_fleet(
        read_hosts(hosts, hosts_file),
        lambda worker: restore_host(worker, wanted, reporter, is_dry_run=is_dry_run),
        lambda message: message.payload(),
    )
