"""The kernels of CPUs: one file each, with a tuple ``KERNELS``."""
