"""What people see: figures, tables, words, and the pages that hold them.

The names of the stub, imported on first use, are those that the command line renders with.
"""

from __future__ import annotations

from mansard.core.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
