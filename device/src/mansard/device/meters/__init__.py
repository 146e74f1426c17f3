"""Meters of power and energy, and the sampler that keeps their raw readings."""
