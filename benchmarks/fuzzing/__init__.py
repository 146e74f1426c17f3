"""Damaging real models, and seeing that the scorer ends well on each."""
