"""The contract ``rooms`` of ``lint-imports``: layers of rooms that are in many folders."""

from __future__ import annotations

from importlinter.contracts.layers import LayersContract

import mansard

# The linter finds a package without importing it, which is the one folder that has __init__.py.
# It loads this file first, and Mansard, once imported, names the folders of all rooms.
assert mansard.__path__, "no rooms"  # noqa: S101 - uses the import


class RoomsContract(LayersContract):
    """Rooms, each of which imports only those below it."""
