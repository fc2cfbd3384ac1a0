"""Lines of a valid batch."""

import json


def build_batch_example(**keys: str | int | bool) -> str:
    """Return the lines of a valid batch, with these keys added or replaced."""
    valid = {
        "model": "ranker",
        "instance_type": "ml.c5.xlarge",
        "input": "s3://tables/rows/",
        "output": "s3://tables/scores/",
        "content_type": "text/csv",
    }
    lines = {f"batch.nightly.{key}": json.dumps(one) for key, one in {**valid, **keys}.items()}
    return "\n".join(map(" = ".join, lines.items()))
