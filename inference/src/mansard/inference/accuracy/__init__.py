"""How often a network is right: labelled samples, its scores of them, and the row of both."""
