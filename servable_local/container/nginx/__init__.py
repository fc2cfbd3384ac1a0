"""What NGINX is in the image: the one port that callers reach."""
