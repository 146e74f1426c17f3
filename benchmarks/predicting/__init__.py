"""Predicting all modes of a board, by us and by others."""
