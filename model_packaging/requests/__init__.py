"""Requests that are known before anything is deployed: golden requests and warm-up records."""
