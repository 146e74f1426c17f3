"""The figures that llama-bench prints of its tests, read while its output is passed on."""

from __future__ import annotations

from mansard.core.formats.llama_bench import bench_rates

MOST_BYTES = 16 << 20  # of each stream; a test is about 1 kB


class FiguresReader:
    """Keeps what each stream prints; ``figures`` of the stream that holds llama-bench's JSON."""

    def __init__(self) -> None:
        self._streams: dict[int, bytearray] = {}

    def feed(self, stream: int, data: bytes) -> None:
        """Take a piece of the program's output."""
        kept = self._streams.setdefault(stream, bytearray())
        kept += data[: MOST_BYTES - len(kept)]

    def figures(self) -> dict[str, float]:
        """Tokens/s of each test; empty where no stream holds its JSON."""
        return next(filter(None, (bench_rates(bytes(kept)) for kept in self._streams.values())), {})

    def close(self) -> None:
        """Forget what was read."""
        self._streams.clear()
