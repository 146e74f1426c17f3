"""Fifty boards: stand-in container engines, and what a bench of a fleet takes."""
