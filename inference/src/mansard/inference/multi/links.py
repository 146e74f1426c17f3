"""From a stage to the next one of its network, in another thread or process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from mansard.inference.inputs import numpy_name
from mansard.inference.multi.gates import acquired
from mansard.inference.multi.tally import CountedWindow
from mansard.inference.npz import Array
from mansard.inference.plan import InputSpec

DEPTH = 2  # runs that lie between two stages at most


class Link(Protocol):
    """A queue of what a stage is fed. Waiting and copying are apart, so that each is timed."""

    def reserve(self, window: CountedWindow) -> bool:
        """Wait for room; False: the window is over."""

    def put(self, arrays: Mapping[str, Array], began_s: float) -> None:
        """Hand arrays over, of a run that began then."""

    def wait(self, window: CountedWindow) -> bool:
        """Wait for arrays; False: the window is over."""

    def get(self) -> tuple[Mapping[str, Array], float]:
        """The arrays, and when their run began."""


class ThreadLink:
    """Between threads: nothing is copied. ``context``: makes its semaphores."""

    def __init__(self, context: Any) -> None:
        self._free, self._filled = context.Semaphore(DEPTH), context.Semaphore(0)
        self._held: deque[tuple[Mapping[str, Array], float]] = deque()

    def reserve(self, window: CountedWindow) -> bool:
        return acquired(self._free, window)

    def put(self, arrays: Mapping[str, Array], began_s: float) -> None:
        self._held.append((arrays, began_s))
        self._filled.release()

    def wait(self, window: CountedWindow) -> bool:
        return acquired(self._filled, window)

    def get(self) -> tuple[Mapping[str, Array], float]:
        found = self._held.popleft()
        self._free.release()
        return found


class MemoryLink:
    """Between processes: each array is copied into shared memory, and out of it.

    ``specs``: of what the next stage is fed.
    """

    def __init__(self, context: Any, specs: Sequence[InputSpec]) -> None:
        self._free, self._filled = context.Semaphore(DEPTH), context.Semaphore(0)
        self._specs, self._n_put, self._n_got = tuple(specs), 0, 0
        n_bytes = [int(np.prod(spec.shape)) * _dtype(spec).itemsize for spec in specs]
        # Anonymous shared memory: nothing is left behind, whatever becomes of the processes.
        self._arrays = [[context.RawArray("b", max(1, n)) for n in n_bytes] for _ in range(DEPTH)]
        self._began_s = context.RawArray("d", DEPTH)

    def reserve(self, window: CountedWindow) -> bool:
        return acquired(self._free, window)

    def put(self, arrays: Mapping[str, Array], began_s: float) -> None:
        slot = self._n_put % DEPTH
        for spec, place in zip(self._specs, self._arrays[slot], strict=True):
            self._view(spec, place)[...] = arrays[spec.name]
        self._began_s[slot] = began_s
        self._n_put += 1
        self._filled.release()

    def wait(self, window: CountedWindow) -> bool:
        return acquired(self._filled, window)

    def get(self) -> tuple[Mapping[str, Array], float]:
        slot = self._n_got % DEPTH
        pairs = zip(self._specs, self._arrays[slot], strict=True)
        found = {spec.name: self._view(spec, place).copy() for spec, place in pairs}
        began_s = self._began_s[slot]
        self._n_got += 1
        self._free.release()
        return found, began_s

    def _view(self, spec: InputSpec, place: Any) -> Array:
        count = int(np.prod(spec.shape))
        found: Array = np.frombuffer(place, _dtype(spec), count).reshape(spec.shape)
        return found


def _dtype(spec: InputSpec) -> np.dtype[Any]:
    return np.dtype(numpy_name(spec.type_name))
