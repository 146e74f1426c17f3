"""Work in processes of this machine goes on when one of them is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from mansard.api.parallel import Work, do_work

_MANY_BYTES = 64 << 20  # more than a pipe holds: writing it waits for the reader


def _killed_as_it_answers(item: int, folder: Path) -> bytes:
    """A long answer; the first process that gives that of an odd item is killed as it writes."""
    marker = folder / str(item)
    if item % 2 and not marker.exists():
        marker.touch()
        threading.Thread(target=_kill_when_main_thread_writes, daemon=True).start()
    return bytes(_MANY_BYTES)


def _kill_when_main_thread_writes() -> None:
    main = threading.main_thread().ident
    assert main is not None
    while True:
        frame: Any = sys._current_frames()[main]
        if frame.f_code.co_name == "_send":
            os.kill(os.getpid(), signal.SIGKILL)


def _killed_at_three(item: int, shared: None) -> int:
    del shared
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * item


def _sizes(folder: Path, n_items: int) -> list[int]:
    work = Work[int, bytes](
        function=_killed_as_it_answers,
        title="answers",
        name=str,
        lost=lambda _: b"",
        shared=folder,
    )
    return [len(answer) for answer in do_work(work, range(n_items), jobs=2)]


def test_a_process_that_is_killed_as_it_answers_loses_its_item_alone(tmp_path: Path) -> None:
    assert _sizes(tmp_path, 4) == [_MANY_BYTES] * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]


def test_an_item_that_kills_each_process_is_known_by_name() -> None:
    work = Work[int, int](
        function=_killed_at_three, title="numbers", name=str, lost=lambda item: -item
    )
    assert do_work(work, range(6), jobs=2) == [0, 10, 20, -3, 40, 50]
