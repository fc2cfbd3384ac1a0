"""Conversion of JSON, JSON lines and CSV to the JSON of TensorFlow Serving's REST interface.

The rules are those of the container's NGINX when there is no code, since 2.20, including its
pitfalls: adding a handler changes no client's response. The local container uses them too.
Source: tensorflowServing.js in the image's public source,
https://github.com/aws/deep-learning-containers (scripts/docker/tensorflow/inference/sagemaker)
"""

import json
import re

TYPES_OF_JSON_LINES = ("application/jsonlines", "application/jsons")
"""Content types of JSON lines. The commands and the handler treat them alike."""
_OWN_FORM = re.compile(rb'"(?:instances|inputs|examples)"\s*:')
_SIGNATURE_NAME = re.compile(rb'"signature_name"\s*:')
# Two values with nothing but space between them.
_SEPARATE_VALUES = re.compile(r"[}\]]\s*[\[{]", re.ASCII)
_NESTED_LIST = re.compile(r"\s*\[\s*\[", re.ASCII)
# Numbers end with a digit, which distinguishes them from a line of commas without the parser.
_LETTERS_OF_NUMBERS = re.compile(r"[-0-9](?:[-+0-9.,eE]*[0-9])?")
# Made once: `json.loads` with these arguments makes one for each line.
_NUMBERS = json.JSONDecoder(parse_float=len, parse_int=len)
# A field that may be a number, and characters that JSON escapes.
_UNLIKE_WORDS = re.compile(r'["\\]|(?:^|,)\s*-?[0-9]')
# One piece of a line of CSV: a comma, text without quotes, or text between quotes.
_PIECES = re.compile(r'(,|[^",]+)|"((?:[^"]|"")*)(?:"|\Z)')
# What NGINX's JavaScript takes for space: of Unicode's other spaces it knows none.
SPACE = "\t\n\v\f\r "
_LINE_END = re.compile(r"\r?\n")


def from_json(body: bytes) -> bytes:
    """Return the model server's own format unchanged; lines, a list, or a value as instances."""
    if _OWN_FORM.search(body):
        return body
    text = body.decode(errors="surrogateescape")
    if _SEPARATE_VALUES.search(text):
        each = split_lines(text)
        joined = ",".join(filter(None, each))
        instances = f"[{joined}]" if len(each) > 1 else joined
    else:
        instances = text if _NESTED_LIST.match(text) else f"[{text}]"
    return f'{{"instances":{instances}}}'.encode(errors="surrogateescape")


def from_records(body: bytes) -> bytes:
    """Convert JSON lines that get one response line each, also a single one and a plain value.

    By the container's rules, `from_json`, a single line of nested lists would be several rows.
    """
    text = body.decode(errors="surrogateescape").strip(SPACE)
    if _OWN_FORM.search(body) or ("\n" in text and text[0] in "[{"):
        return from_json(body)
    rows = ",".join(filter(None, split_lines(text)))
    return f'{{"instances":[{rows}]}}'.encode(errors="surrogateescape")


def from_csv(body: bytes) -> bytes:
    """Convert CSV: a field is a number as JSON writes it, otherwise a string without its quotes."""
    text = body.decode(errors="surrogateescape")
    rows = [
        f"[{row}]" if several else row
        for row, several in map(_convert_row, filter(None, split_lines(text)))
    ]
    return f'{{"instances":[{",".join(rows)}]}}'.encode(errors="surrogateescape")


def _convert_row(line: str) -> tuple[str, bool]:
    """Return the line's values as JSON, and whether there are several. Most lines are of one kind."""
    if _has_only_numbers(line):
        return line, "," in line
    if not _UNLIKE_WORDS.search(line):
        return '"' + line.replace(",", '","') + '"', "," in line
    values = list(map(_convert_value, _split_fields(line)))
    return ",".join(values), len(values) > 1


def _has_only_numbers(line: str) -> bool:
    # Python's parser of JSON has the grammar, and takes no longer than finding the commas.
    if not _LETTERS_OF_NUMBERS.fullmatch(line):
        return False
    try:
        _NUMBERS.decode(f"[{line}]")
    except ValueError:
        return False
    return True


def _split_fields(line: str) -> list[str]:
    if '"' not in line:
        return line.split(",")
    # A quote outside quotes opens; up to the next one that is not doubled, commas are text.
    fields, field = [], ""
    for text, quoted in _PIECES.findall(line):
        if text == ",":
            fields.append(field)
            field = ""
        else:
            field += text or quoted.replace('""', '"')
    return [*fields, field]


def _convert_value(field: str) -> str:
    number = field.strip(SPACE)
    if "," not in number and _has_only_numbers(number):
        return number
    return '"' + field.replace("\\", "\\\\").replace('"', '\\"') + '"'


def add_signature(body: bytes, signature: str) -> bytes:
    """Return a body in the model server's format with the signature, unless it names one."""
    if _SIGNATURE_NAME.search(body):
        return body
    name = signature.replace("\\", "\\\\").replace('"', '\\"').encode(errors="surrogateescape")
    return body.replace(b"{", b'{"signature_name":"' + name + b'",', 1)


def split_lines(text: str) -> list[str]:
    """Return the lines of the text, without the space around each."""
    return [line.strip(SPACE) for line in _LINE_END.split(text.strip(SPACE))]
