"""Recorded language models on Jetsons, and what is predicted of them."""
