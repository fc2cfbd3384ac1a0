"""What the container's NGINX makes of text, letter by letter, as tensorflowServing.js does since 2.20.

Slow and plain on purpose: servable_tensors/text_bodies.py is held against it, and it against what
the image's own code answered (tests/servable_local/container/observed).
"""

import re
from collections.abc import Iterator

SPACE = "\t\n\v\f\r "


def from_json(body: bytes) -> bytes:
    text = body.decode(errors="surrogateescape")
    if re.search(r'"(instances|inputs|examples)"\s*:', text, re.ASCII):
        return body
    if re.search(r"[}\]]\s*[\[{]", text, re.ASCII):
        lines = _lines(text)
        joined = ",".join(line for line in lines if line)
        instances = f"[{joined}]" if len(lines) > 1 else joined
    else:
        instances = text if re.match(r"\s*\[\s*\[", text, re.ASCII) else f"[{text}]"
    return f'{{"instances":{instances}}}'.encode(errors="surrogateescape")


def from_records(body: bytes) -> bytes:
    """JSON lines that are answered line by line: Servable's own, for the image never answers so.

    Lists and objects over several lines are the image's to part; all else has a row on each line.
    """
    text = body.decode(errors="surrogateescape").strip(SPACE)
    several = text[:1] in ("[", "{") and "\n" in text
    if several or re.search(r'"(instances|inputs|examples)"\s*:', text, re.ASCII):
        return from_json(body)
    rows = ",".join(line for line in _lines(text) if line)
    return f'{{"instances":[{rows}]}}'.encode(errors="surrogateescape")


def from_csv(body: bytes) -> bytes:
    rows = []
    for line in _lines(body.decode(errors="surrogateescape")):
        if line:
            values = list(map(_value, _fields(line)))
            rows.append(f"[{','.join(values)}]" if len(values) > 1 else values[0])
    return f'{{"instances":[{",".join(rows)}]}}'.encode(errors="surrogateescape")


def _fields(line: str) -> Iterator[str]:
    field, quoted, position = "", False, 0
    while position < len(line):
        letter = line[position]
        position += 1
        if letter == '"' and quoted and line[position : position + 1] == '"':
            field += letter
            position += 1
        elif letter == '"':
            quoted = not quoted
        elif letter == "," and not quoted:
            yield field
            field = ""
        else:
            field += letter
    yield field


def _value(field: str) -> str:
    number = field.strip(SPACE)
    if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", number):
        return number
    return '"' + field.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lines(text: str) -> list[str]:
    return [line.strip(SPACE) for line in re.split(r"\r?\n", text.strip(SPACE))]
