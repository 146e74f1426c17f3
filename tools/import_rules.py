"""The contract ``rooms`` of ``lint-imports``: layers of rooms that are in many folders."""

from __future__ import annotations

from importlinter.contracts.layers import LayersContract

# The linter finds a package without importing it: it would see only the folder with __init__.py.
# It loads this file first, and the import below adds the folders of all rooms to the package.
import mansard  # noqa: F401


class RoomsContract(LayersContract):
    """Rooms, each of which imports only those below it."""
