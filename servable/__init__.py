"""The command `servable`, and the version of all that is released with it."""

__version__ = "0.1.0"
