"""Corrections where moto differs from AWS and it matters: one module for each service."""
