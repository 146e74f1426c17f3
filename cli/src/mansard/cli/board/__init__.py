"""Commands about one machine or its containers."""
