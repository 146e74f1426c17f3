"""The kernels of GPUs: one file each, with a tuple ``KERNELS``."""
