"""Schedules of several networks: what they are made from, and the words for them."""
