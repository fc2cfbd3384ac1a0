"""JSON, JSON lines and CSV become the JSON of TensorFlow Serving's REST interface.

The rules are those of the container's NGINX when there is no code, its traps included, so
that adding a handler changes no client's answer.
Source: tensorflowServing.js in the image's public source,
https://github.com/aws/deep-learning-containers (tensorflow/inference/docker/build_artifacts)
"""

import re

_OWN_FORM = re.compile(rb'"(?:instances|inputs|examples)"\s*:')
_SIGNATURE_NAME = re.compile(rb'"signature_name"\s*:')
# Two values with nothing but space between them.
_SEPARATE_VALUES = re.compile(r"[}\]]\s*[\[{]")
_NESTED_LIST = re.compile(r"\s*\[\s*\[")
# A field in quotes or a number opens the text; seen by a regular expression without Unicode.
_NUMBERS_OR_QUOTED = re.compile(r'\s*("|[\d.Ee+\-]+)', re.ASCII)
_LINE_END = re.compile(r"\r?\n")


def from_json(body: bytes) -> bytes:
    """The model server's own form as it is; JSON lines, a bare list or value as instances."""
    if _OWN_FORM.search(body):
        return body
    text = body.decode(errors="surrogateescape")
    if _SEPARATE_VALUES.search(text):
        lines = _lines(text)
        joined = ",".join(filter(None, lines))
        instances = f"[{joined}]" if len(lines) > 1 else joined
    else:
        instances = text if _NESTED_LIST.match(text) else f"[{text}]"
    return f'{{"instances":{instances}}}'.encode(errors="surrogateescape")


def from_csv(body: bytes) -> bytes:
    """Lines of numbers, or of words. Of words only the first comma is seen: the image's trap."""
    text = body.decode(errors="surrogateescape")
    words = not _NUMBERS_OR_QUOTED.match(text)
    rows = []
    for line in filter(None, _lines(text)):
        row = line
        if words:
            row = '"' + line.replace('"', '\\"', 1).replace(",", '","', 1) + '"'
        rows.append(f"[{row}]" if "," in line else row)
    return f'{{"instances":[{",".join(rows)}]}}'.encode(errors="surrogateescape")


def with_signature(body: bytes, signature: str) -> bytes:
    """The model server's form, asking for a signature; one that the body itself names stays."""
    if _SIGNATURE_NAME.search(body):
        return body
    name = signature.replace("\\", "\\\\").replace('"', '\\"').encode(errors="surrogateescape")
    return body.replace(b"{", b'{"signature_name":"' + name + b'",', 1)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in _LINE_END.split(text.strip())]
