"""Stand-in for the image's NGINX: the one port that callers reach."""
