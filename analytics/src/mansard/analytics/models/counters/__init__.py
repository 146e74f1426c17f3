"""Counters of Nsight Compute: exports read, quantities made of them, estimates checked by them."""
