"""Kernels for NVIDIA GPUs: what they are, how they are built, and the GPU that runs them."""
