"""What each step does: facts, tests, kernels, meter, peers, counters, a program, looks."""
