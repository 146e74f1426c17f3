"""Ceilings from raw repetitions: the most that a machine can do."""
