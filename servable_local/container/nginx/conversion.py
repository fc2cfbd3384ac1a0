"""What NGINX does with a body when there is no code: three forms become TensorFlow Serving's JSON.

Source: tensorflowServing.js in the image's public source, see image_code.py. Its traps are kept: a
test against the local container must not pass where the image fails.
"""

import json
import re
from collections.abc import Iterator

from servable_local.container.http_messages import JSON, HttpAnswer
from servable_local.container.image_code import ImageCode

_JSON_TYPES = (JSON, "application/jsonlines", "application/jsons")
_SERVING_ALREADY = re.compile(rb'"(instances|inputs|examples)"\s*:')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
# JavaScript's white space, which trim() takes away.
_SPACE = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
_SPACE += "".join(map(chr, range(0x2000, 0x200B)))


def converted(header: str | None, body: bytes, image: ImageCode) -> bytes | HttpAnswer:
    """The model server's body; the answer (415) for a type that is not taken."""
    content_type = header or ""
    if image.rewritten:
        content_type = content_type.split(";")[0].strip(_SPACE).lower()
    if content_type in _JSON_TYPES:
        if _SERVING_ALREADY.search(body):
            return body
        return _text(from_json(body.decode(errors="surrogateescape")))
    if content_type == "text/csv":
        read = from_csv if image.rewritten else from_csv_up_to_2_19
        return _text(read(body.decode(errors="surrogateescape")))
    return refused(415, f"Unsupported Media Type: {content_type or 'Unknown'}", image)


def refused(status: int, sentence: str, image: ImageCode) -> HttpAnswer:
    """An error of NGINX's own."""
    if image.rewritten:
        text = json.dumps({"error": sentence}, ensure_ascii=False, separators=(",", ":"))
    else:
        text = f'{{"error": "{sentence}"}}'  # nothing is escaped there
    return HttpAnswer(status, text.encode("utf-8", "surrogateescape"))


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
    """Every field of every line is a number as JSON writes it, or else a string."""
    rows = []
    for line in filter(None, _lines(text)):
        fields = list(map(_value, _fields(line)))
        rows.append(f"[{','.join(fields)}]" if len(fields) > 1 else fields[0])
    return f'{{"instances":[{",".join(rows)}]}}'


def _fields(line: str) -> Iterator[str]:
    """Quotes open and close anywhere and go away; a doubled one between quotes is one."""
    field, quoted = "", False
    position = 0
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
    number = field.strip(_SPACE)
    if _NUMBER.fullmatch(number):
        return number
    return '"' + field.replace("\\", "\\\\").replace('"', '\\"') + '"'


def from_csv_up_to_2_19(text: str) -> str:
    """Lines of numbers, or of words. Of words only the first comma is seen."""
    quoted = not re.match(r'\s*("|[\d.Ee+\-]+)', text, re.ASCII)
    rows = []
    for line in filter(None, _lines(text)):
        several = "," in line
        if quoted:
            line = '"' + line.replace('"', '\\"', 1).replace(",", '","', 1) + '"'
        rows.append(f"[{line}]" if several else line)
    return f'{{"instances":[{",".join(rows)}]}}'


def _lines(text: str) -> list[str]:
    return [line.strip(_SPACE) for line in re.split(r"\r?\n", text.strip(_SPACE))]


def accepted(accept: str | None, answer: HttpAnswer, image: ImageCode) -> HttpAnswer:
    """An Accept header that names JSON gets the answer without its line breaks."""
    if image.rewritten:
        types = [each.strip(_SPACE) for each in (accept or "").split(",")]
    else:
        types = (accept or "").strip(_SPACE).replace(" ", "", 1).split(",")
    if "application/jsonlines" not in types and JSON not in types:
        return answer
    content_type = JSON if image.rewritten else types[0]
    return HttpAnswer(answer.status, answer.body.replace(b"\n", b""), content_type)
