"""What networks take under the roofs."""
