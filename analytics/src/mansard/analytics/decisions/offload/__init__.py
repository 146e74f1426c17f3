"""Hierarchical inference: which samples a small network keeps, and which it offloads."""
