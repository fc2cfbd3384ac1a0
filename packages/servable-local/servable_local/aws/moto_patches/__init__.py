"""Corrections where moto answers differently from AWS and it matters: one module for each service."""
