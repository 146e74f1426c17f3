"""The images, and the launcher that runs the on-device rooms inside them."""
