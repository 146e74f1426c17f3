"""Reads one machine: what it is, how it runs now, and what it draws."""
