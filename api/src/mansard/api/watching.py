"""Looking at boards as they run: one record for each look, of this machine or of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mansard.core.errors import MansardError, UsageError
from mansard.core.records import BoardSample
from mansard.device.controller import check_root
from mansard.device.system import SYSTEM_ROOT
from mansard.device.watching import SHORTEST_INTERVAL_S, BoardWatch, Wait, samples, sleep

LONGEST_INTERVAL_S = 3600.0
OnLost = Callable[[str, MansardError], None]
"""Takes the name of a board that does not answer, and why; it is asked again."""


def watch(
    board: Path | None = None,
    *,
    hosts: Sequence[str] = (),
    hosts_file: Path | None = None,
    interval_s: float = 1.0,
    duration_s: float | None = None,
    n_samples: int | None = None,
    wait: Wait = sleep,
    on_lost: OnLost | None = None,
) -> Iterator[BoardSample]:
    """What a board does now, once in each interval, until ``duration_s`` or ``n_samples``.

    ``board``: the root folder of a simulated board; this machine by default. ``hosts``: boards
    elsewhere, read over ssh, each at its own pace; ``hosts_file`` names them. ``wait`` waits for
    seconds and returns True to end. Nothing is set and nothing is installed. Raises UsageError,
    InputError, and DeviceError where a single host cannot be reached.
    """
    check_interval(interval_s)
    if hosts:
        from mansard.containers.board_looks import look_at_boards
        from mansard.containers.hosts import read_hosts

        if board is not None:
            raise UsageError("--board and --host exclude each other", fix="name one of them")
        return look_at_boards(
            read_hosts(hosts, hosts_file),
            interval_s=interval_s,
            duration_s=duration_s,
            n_samples=n_samples,
            wait=wait,
            on_lost=on_lost,
        )
    root = SYSTEM_ROOT if board is None else board
    check_root(root)
    watched = BoardWatch(root, interval_s=interval_s)
    return samples(
        watched.read,
        interval_s=interval_s,
        duration_s=duration_s,
        n_samples=n_samples,
        wait=wait,
    )


def check_interval(interval_s: float) -> None:
    """Raises UsageError for an interval that is too short or too long."""
    if not SHORTEST_INTERVAL_S <= interval_s <= LONGEST_INTERVAL_S:
        raise UsageError(
            f"an interval of {interval_s:g} s is out of range",
            fix=f"give {SHORTEST_INTERVAL_S:g} s to {LONGEST_INTERVAL_S:g} s",
        )
