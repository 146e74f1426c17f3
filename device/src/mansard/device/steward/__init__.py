"""The steward: who knows and changes one board, in this process or in another one beside it."""
