"""Where moto answers differently from AWS and it matters here: one module for each service."""
