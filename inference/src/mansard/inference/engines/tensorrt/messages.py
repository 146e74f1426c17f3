"""What TensorRT says while it works, kept instead of printed.

A process has one logger: TensorRT keeps the first that it is given, and ignores all others. So
builders, parsers and runtimes take this one.
"""

from __future__ import annotations

import contextlib
import functools
import warnings as python_warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_ERROR, _WARNING = 1, 2  # ILogger.Severity; 0 is an internal error
_MOST_KEPT = 200


@dataclass
class Messages:
    """Errors and warnings in the order in which they came, each once."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def keep(self, severity: int, text: str) -> None:
        """Keep one message, unless it only informs or there are very many."""
        if severity <= _WARNING:
            kept = self.errors if severity <= _ERROR else self.warnings
            if text not in kept and len(kept) < _MOST_KEPT:
                kept.append(text)


@contextlib.contextmanager
def kept_messages(bindings: Any) -> Iterator[tuple[Any, Messages]]:
    """The process's logger, and the messages that come while the block runs.

    Python's warnings of deprecated calls are silent meanwhile: the table of versions says which
    calls a version has.
    """
    logger, messages = _logger(bindings), Messages()
    before, logger.messages = logger.messages, messages
    try:
        with python_warnings.catch_warnings():
            python_warnings.simplefilter("ignore", DeprecationWarning)
            yield logger, messages
    finally:
        logger.messages = before


@functools.cache
def _logger(bindings: Any) -> Any:
    class Logger(bindings.ILogger):  # type: ignore[misc]
        """Hands messages to whoever keeps them now."""

        def __init__(self) -> None:
            bindings.ILogger.__init__(self)
            self.messages: Messages | None = None

        def log(self, severity: Any, text: str) -> None:  # called by TensorRT, from any thread
            if self.messages is not None:
                self.messages.keep(int(severity), text)

    return Logger()
