"""The controller of one board: it knows the board and sets it, in this process or another."""
