"""Faults of code that is read, and never run: each module finds one kind."""
