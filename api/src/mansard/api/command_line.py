"""What the command line alone needs, imported on first use: parsers of options, lines of files."""

from __future__ import annotations

from mansard.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
