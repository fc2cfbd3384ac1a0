"""inference.py files, each a contender: packed as they are, never imported here."""
