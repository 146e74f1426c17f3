"""What the scorer does with one mutant, within limits of time and memory."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from mansard.core.errors import MansardError
from mansard.core.records import Phase
from mansard.estimator import Settings, load, score_loaded, totals

MAX_S = 10.0
MAX_BYTES = 10**9
PHASES: tuple[Phase, ...] = ("inference", "training")


class Outcome(msgspec.Struct, frozen=True):
    """``result``: refused on reading or scoring, scored; ``failure``: what must not happen."""

    result: str
    failure: str | None = None


class _TooSlow(BaseException):
    """Not an Exception, so that nobody handles it on the way."""


def run(data: bytes) -> Outcome:
    """Read the mutant and score it in both phases."""
    _forget_peak()
    try:
        with _limited(MAX_S):
            result = _score(data)
    except _TooSlow:
        return Outcome("failed", f"took longer than {MAX_S:g} s\n{traceback.format_exc(limit=-8)}")
    except Exception:  # whatever it is, it is what is looked for
        return Outcome("failed", traceback.format_exc(limit=-8))
    peak_bytes = _peak_bytes()
    if peak_bytes > MAX_BYTES:
        return Outcome("failed", f"took {peak_bytes / 1e9:.1f} GB")
    return Outcome(result)


def _score(data: bytes) -> str:
    try:
        loaded = load(data)
    except MansardError:
        return "refused on reading"
    n_scored = 0
    for phase in PHASES:
        try:
            found = score_loaded(loaded, Settings(phase=phase, allow_unknown=phase == "training"))
            totals(found)
            msgspec.json.encode(found)
        except MansardError:
            continue
        n_scored += 1
    return ("refused on scoring", "scored in part", "scored")[n_scored]


@contextmanager
def _limited(seconds_s: float) -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _forget_peak() -> None:
    # proc(5): 5 sets the peak resident size to the present one
    Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    with Path("/proc/self/status").open() as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
