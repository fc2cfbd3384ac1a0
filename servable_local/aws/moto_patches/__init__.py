"""Where moto answers differently from AWS and it matters here: one file per difference."""
