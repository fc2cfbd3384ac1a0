"""Runs inside the serving container, before the model server: checks requests and passes them on.

The container calls `input_handler` with the request, posts what it returns to
the model server, and calls `output_handler` with the model server's answer.
Standard library and what the image holds (falcon) only: TensorFlow is not in it.
"""

import json
from typing import Any, BinaryIO

FIELDS = 39
JSON = "application/json"


def input_handler(data: BinaryIO, context: Any) -> bytes:
    """The request's body, unchanged, once every row is known to have 39 features."""
    import falcon

    content_type = (context.request_content_type or JSON).split(";")[0].strip().lower()
    if content_type != JSON:
        raise falcon.HTTPUnsupportedMediaType(
            title="Unsupported content type", description=f"got {content_type}; send {JSON}"
        )
    body = data.read()
    problem = problem_with(body)
    if problem:
        raise falcon.HTTPBadRequest(title="Bad request", description=problem)
    return body


def output_handler(response: Any, context: Any) -> tuple[bytes, str]:
    """The model server's answer; its refusals keep their status."""
    if response.status_code != 200:
        import falcon

        raise falcon.HTTPError(
            response.status_code, title="The model refused", description=response.text
        )
    content: bytes = response.content
    return content, JSON


def problem_with(body: bytes) -> str | None:
    """Describe the request's fault in a sentence; None if the request is valid."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        return f"the body is not JSON: {error}"
    if not isinstance(request, dict) or ("inputs" in request) == ("instances" in request):
        return 'send an object with either "inputs" (columns) or "instances" (rows)'
    if "inputs" in request:
        columns = request["inputs"]
        if not isinstance(columns, dict):
            return '"inputs" must be an object with feat_ids and feat_vals'
        named: list[tuple[str, Any]] = [
            (name, columns.get(name)) for name in ("feat_ids", "feat_vals")
        ]
    else:
        rows = request["instances"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            return '"instances" must be a list of objects with feat_ids and feat_vals'
        named = [(name, [row.get(name) for row in rows]) for name in ("feat_ids", "feat_vals")]
    for name, column in named:
        if not isinstance(column, list) or not column:
            return f"{name} must be a list of at least one row of {FIELDS} numbers"
        for number, row in enumerate(column):
            if not isinstance(row, list) or len(row) != FIELDS:
                given = len(row) if isinstance(row, list) else "no list of"
                return f"{name}, row {number}: {given} features; the ranker takes {FIELDS}"
    if len(named[0][1]) != len(named[1][1]):
        return f"feat_ids has {len(named[0][1])} rows, feat_vals {len(named[1][1])}; send as many"
    return None
