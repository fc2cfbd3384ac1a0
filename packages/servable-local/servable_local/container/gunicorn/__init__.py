"""Gunicorn with code/inference.py in it, as the image runs it."""
