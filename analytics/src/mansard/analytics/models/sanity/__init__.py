"""Whether measurements can be true: what contradicts itself, or physics, or never settled."""
