"""Kernels on CPUs: compiled by Numba, run by pinned threads."""
