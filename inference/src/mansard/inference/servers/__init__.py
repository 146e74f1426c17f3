"""Servers of language models, measured over HTTP: first token, tokens, energy of both phases."""
