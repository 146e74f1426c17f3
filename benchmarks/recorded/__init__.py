"""What others recorded of real engines and cards, and the networks behind it."""
