"""Networks run under Nsight Compute, which reads the GPU's counters: ``mansard models ncu run``."""
