"""What NGINX does with a body when there is no code: three forms become TensorFlow Serving's JSON.

Source: tensorflowServing.js in the image's public source,
https://github.com/aws/deep-learning-containers (tensorflow/inference/docker/build_artifacts).
Its traps are kept: a test against the local container must not pass where the image fails.
"""

import re

from servable_local.container.http_messages import JSON, HttpAnswer

_JSON_TYPES = (JSON, "application/jsonlines", "application/jsons")
_SERVING_ALREADY = re.compile(rb'"(instances|inputs|examples)"\s*:')


def converted(content_type: str | None, body: bytes) -> bytes | None:
    """The model server's body; None for a type that is answered 415."""
    # Compared as a whole: "application/json; charset=utf-8" is refused there too.
    if content_type in _JSON_TYPES:
        if _SERVING_ALREADY.search(body):
            return body
        return _text(from_json(body.decode(errors="surrogateescape")))
    if content_type == "text/csv":
        return _text(from_csv(body.decode(errors="surrogateescape")))
    return None


def _text(converted: str) -> bytes:
    return converted.encode(errors="surrogateescape")


def from_json(text: str) -> str:
    """A request of TensorFlow Serving's own, JSON lines, or a bare list or value."""
    if re.search(r'"(instances|inputs|examples)"\s*:', text):
        return text
    # Two values with nothing but space between them: one value per line.
    if re.search(r"[}\]]\s*[\[{]", text):
        lines = _lines(text)
        joined = ",".join(line for line in lines if line)
        return f'{{"instances":[{joined}]}}' if len(lines) > 1 else f'{{"instances":{joined}}}'
    nested = re.match(r"\s*\[\s*\[", text)
    return f'{{"instances":{text}}}' if nested else f'{{"instances":[{text}]}}'


def from_csv(text: str) -> str:
    """Lines of numbers, or of words. Of words only the first comma is seen: the image's trap."""
    quoted = not re.match(r'\s*("|[\d.Ee+\-]+)', text, re.ASCII)
    rows = []
    for line in filter(None, _lines(text)):
        several = "," in line
        if quoted:
            line = '"' + line.replace('"', '\\"', 1).replace(",", '","', 1) + '"'
        rows.append(f"[{line}]" if several else line)
    return f'{{"instances":[{",".join(rows)}]}}'


def _lines(text: str) -> list[str]:
    return [line.strip() for line in re.split(r"\r?\n", text.strip())]


def accepted(accept: str | None, answer: HttpAnswer) -> HttpAnswer:
    """An Accept header that names JSON gets the answer without its line breaks."""
    types = (accept or "").strip().replace(" ", "", 1).split(",")
    if "application/jsonlines" not in types and JSON not in types:
        return answer
    return HttpAnswer(answer.status, answer.body.replace(b"\n", b""), types[0])
