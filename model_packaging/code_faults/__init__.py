"""Finds faults of code by reading it, never by running it: each module finds one kind."""
