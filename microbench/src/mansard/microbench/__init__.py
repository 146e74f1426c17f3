"""A plan goes in, trials come out: kernels of known work and traffic, timed and metered."""
