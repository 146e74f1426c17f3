"""What a FLOP, a byte and a second cost."""
