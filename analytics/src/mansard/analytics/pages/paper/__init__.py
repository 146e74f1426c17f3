"""Figures for papers and slides: always light, at a given size, with their values and sources."""
