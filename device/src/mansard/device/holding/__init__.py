"""Setting a machine and always bringing it back: lock, journal, steps, restore."""
