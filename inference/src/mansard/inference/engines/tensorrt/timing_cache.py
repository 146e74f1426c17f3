"""Times of kernels that a builder has measured, kept for the next build on the same device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from mansard.core.errors import StorageError
from mansard.core.storage.files import read_whole, write_atomic
from mansard.inference.engines.tensorrt.messages import Messages
from mansard.inference.engines.tensorrt.versions import Version

State = Literal["used", "new", "none"]
TIMING_CACHE = "timing.cache"  # in the folder of the caches of one version and device
_MOST_BYTES = 1 << 30
_REFUSED = re.compile(r"timing cache.* not (?:be )?used|Failed to deserialize timing cache")


class TimingCache:
    """The cache of one build; ``state``: whether the builder took what was in the file."""

    def __init__(self, config: Any, path: Path, version: Version, messages: Messages) -> None:
        self.state: State = "none"
        self._config, self._path = config, path
        if version.has("timing_cache"):
            self.state = "new"
            known = _read(path)
            if known and self._is_taken(known, messages):
                self.state = "used"
            elif not config.set_timing_cache(config.create_timing_cache(b""), False):
                self.state = "none"

    def write(self) -> None:
        """Write what is known after the build; raises StorageError."""
        if self.state != "none" and (cache := self._config.get_timing_cache()) is not None:
            write_atomic(self._path, bytes(cache.serialize()))

    def _is_taken(self, known: bytes, messages: Messages) -> bool:
        """Whether the builder takes it: not from another version or another device."""
        n_errors = len(messages.errors)
        cache = self._config.create_timing_cache(known)
        taken = cache is not None and self._config.set_timing_cache(cache, False)
        refused = is_refused(messages)
        del messages.errors[n_errors:]  # it is built without
        return bool(taken) and not refused


def is_refused(messages: Messages) -> bool:
    """Whether the builder said that it does not take the timing cache that it was given."""
    return any(map(_REFUSED.search, (*messages.warnings, *messages.errors)))


def _read(path: Path) -> bytes:
    """What the file holds; nothing where it is missing or cannot be read: it is made anew."""
    try:
        return read_whole(path, most_bytes=_MOST_BYTES) if path.exists() else b""
    except StorageError:
        return b""
