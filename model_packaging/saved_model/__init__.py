"""Reads a SavedModel folder without TensorFlow."""
