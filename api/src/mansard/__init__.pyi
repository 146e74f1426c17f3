"""The names of the façade, for type checkers."""

from mansard.api import *  # noqa: F403 - what mansard.api lists

__version__: str
