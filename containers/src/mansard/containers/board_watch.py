"""Watches several remote boards in parallel: a thread and an ssh for each, at its own pace."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from mansard.containers.hosts import Host
from mansard.containers.remote_files import BoardFiles, board_files
from mansard.core.errors import DeviceError, MansardError
from mansard.core.records import BoardSample
from mansard.device.watching import BoardWatch, Wait, samples, sleep

RETRY_S = 15.0  # before a board that does not answer is asked again
STOP_S = 5.0  # for a thread to end: it may wait for an answer
_POLL_S = 0.1
OnLost = Callable[[str, MansardError], None]
_AS_ROOT = "log in as root, who alone may read it"


class Lost(msgspec.Struct, frozen=True):
    """A board that does not answer, and why."""

    board: str
    error: MansardError


class _WatchedBoard(threading.Thread):
    """Looks at one board until stopped; a lost board is asked again."""

    def __init__(
        self,
        host: Host,
        samples: queue.SimpleQueue[BoardSample | Lost],
        *,
        interval_s: float,
        n_samples: int | None,
        options: Sequence[str],
    ) -> None:
        super().__init__(name=f"watch {host.name}", daemon=True)
        self._host, self._samples, self._options = host, samples, options
        self._interval_s, self._n_samples = interval_s, n_samples
        self.stopping = threading.Event()
        self.mistake: Exception | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                try:
                    self._look()
                except MansardError as error:
                    self._samples.put(Lost(self._host.name, error))
                if self._n_samples is not None or self.stopping.wait(RETRY_S):
                    return
        except Exception as error:  # a mistake of ours is raised in the caller's thread
            self.mistake = error

    def _look(self) -> None:
        with board_files(self._host, self._options) as files:
            watch = BoardWatch(
                files.folder, self._host.name, as_root=_AS_ROOT, interval_s=self._interval_s
            )
            looks = samples(
                lambda: _look(files, watch),
                interval_s=self._interval_s,
                n_samples=self._n_samples,
                wait=self.stopping.wait,
            )
            for sample in looks:
                self._samples.put(sample)


def _look(files: BoardFiles, watch: BoardWatch) -> BoardSample:
    files.fetch()
    return _of_board(watch.read(), str(files.folder))


def _of_board(sample: BoardSample, folder: str) -> BoardSample:
    """Paths of the folder here become the board's own."""
    return msgspec.structs.replace(
        sample,
        unknown={name: why.replace(folder, "") for name, why in sample.unknown.items()},
        zones=tuple(
            msgspec.structs.replace(
                zone, unknown={name: why.replace(folder, "") for name, why in zone.unknown.items()}
            )
            if zone.temperature_c is None
            else zone
            for zone in sample.zones
        ),
    )


def look_at_boards(
    hosts: Sequence[Host],
    *,
    interval_s: float,
    duration_s: float | None = None,
    n_samples: int | None = None,
    clock: Callable[[], float] = time.monotonic,
    wait: Wait = sleep,
    on_lost: OnLost | None = None,
    options: Sequence[str] = (),
) -> Iterator[BoardSample]:
    """Looks at all ``hosts`` as they arrive, until ``duration_s`` or ``n_samples`` each.

    A board without an answer goes to ``on_lost`` and is asked again every ``RETRY_S``. Raises
    its error where it is the only one and has never answered, and DeviceError where with
    ``n_samples`` some have not.
    """
    samples: queue.SimpleQueue[BoardSample | Lost] = queue.SimpleQueue()
    boards = [
        _WatchedBoard(host, samples, interval_s=interval_s, n_samples=n_samples, options=options)
        for host in hosts
    ]
    lost: dict[str, MansardError] = {}
    end_s = None if duration_s is None else clock() + duration_s
    with _running(boards):
        is_over, has_answered = False, False
        while not is_over and (end_s is None or clock() <= end_s):
            is_over = not any(board.is_alive() for board in boards)
            for sample in _drain(samples):
                if isinstance(sample, BoardSample):
                    has_answered = True
                    yield sample
                    continue
                if len(hosts) == 1 and not has_answered:
                    raise sample.error
                lost[sample.board] = sample.error
                (on_lost or _ignore)(sample.board, sample.error)
            is_over |= wait(min(_POLL_S, interval_s))
    if n_samples is not None:
        _check(lost)


@contextlib.contextmanager
def _running(boards: Sequence[_WatchedBoard]) -> Iterator[None]:
    """Run the threads for the block; raises an unexpected error of any of them."""
    try:
        for board in boards:
            board.start()
        yield
    finally:
        for board in boards:
            board.stopping.set()
        for board in boards:
            board.join(STOP_S)
    for board in boards:
        if board.mistake is not None:
            raise board.mistake


def _ignore(board: str, error: MansardError) -> None:
    del board, error


def _drain(samples: queue.SimpleQueue[BoardSample | Lost]) -> Iterator[BoardSample | Lost]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield samples.get_nowait()


def _check(lost: dict[str, MansardError]) -> None:
    """Raises DeviceError where boards have not answered."""
    if lost:
        raise DeviceError(
            f"{len(lost)} boards did not answer: {'; '.join(map(str, lost.values()))}",
            fix="what the others said stands above",
        )
