"""Requests that are known before anything is deployed: golden ones and warm-up records."""
