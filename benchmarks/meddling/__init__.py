"""Another program on a simulated board, and a log of the board that is kept by neither side."""
