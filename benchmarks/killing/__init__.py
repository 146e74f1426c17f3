"""The commands that benchmarks/kills.py kills, and what must hold afterwards."""
