"""Hierarchical inference end to end: a small network here, a larger one on a server."""
