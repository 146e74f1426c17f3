"""Stands in for cuda-python; see ``stand_in_device``."""
