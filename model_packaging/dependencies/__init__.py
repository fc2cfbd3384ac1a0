"""Packages that the image lacks: named in requirements.txt, locked, and vendored."""
