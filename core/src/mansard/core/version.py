"""The version of Mansard; the packaging reads it from here."""

VERSION = "0.1.0"
