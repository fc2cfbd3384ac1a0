"""Gunicorn with code/inference.py in it, as the image runs it."""

SOCKET = "gunicorn.sock"
"""Gunicorn's socket, in the endpoint's folder."""
