"""What ``scheduling.py`` solves and recomputes."""
