"""The stand-in for the image's NGINX: the single port that callers reach."""
