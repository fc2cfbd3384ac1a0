"""NGINX's conversion of bodies without code: three forms become TensorFlow Serving's JSON.

Source: tensorflowServing.js in the image's public source, see image_code.py. Its traps are kept: a
test against the local container must not pass where the image fails.
"""

import json
import re

from servable_local.container.http_messages import JSON, HttpAnswer
from servable_local.container.image_code import ImageCode
from servable_tensors.text_bodies import SPACE, from_csv, from_json, lines

_JSON_TYPES = (JSON, "application/jsonlines", "application/jsons")


def converted(header: str | None, body: bytes | None, image: ImageCode) -> bytes | HttpAnswer:
    """The model server's body; the answer for a type that is not taken. None: no body was sent."""
    content_type = (header or "").encode("latin-1").decode(errors="surrogateescape")
    if image.rewritten:
        content_type = content_type.split(";")[0].strip(SPACE).lower()
    if content_type in _JSON_TYPES:
        return from_json(b"undefined" if body is None else body)  # as JavaScript writes it
    if content_type == "text/csv":
        if body is None:
            return page(500, "Internal Server Error")
        return from_csv(body) if image.rewritten else from_csv_up_to_2_19(body)
    return refused(415, f"Unsupported Media Type: {content_type or 'Unknown'}", image)


def refused(status: int, sentence: str, image: ImageCode) -> HttpAnswer:
    """An error of NGINX's own."""
    if image.rewritten:
        text = json.dumps({"error": sentence}, ensure_ascii=False, separators=(",", ":"))
    else:
        text = f'{{"error": "{sentence}"}}'  # nothing is escaped there
    return HttpAnswer(status, text.encode("utf-8", "surrogateescape"))


def from_csv_up_to_2_19(body: bytes) -> bytes:
    """Lines of numbers, or of words. Of words only the first comma is seen."""
    text = body.decode(errors="surrogateescape")
    quoted = not re.match(r'\s*("|[\d.Ee+\-]+)', text, re.ASCII)
    rows = []
    for line in filter(None, lines(text)):
        several = "," in line
        if quoted:
            line = '"' + line.replace('"', '\\"', 1).replace(",", '","', 1) + '"'
        rows.append(f"[{line}]" if several else line)
    return f'{{"instances":[{",".join(rows)}]}}'.encode(errors="surrogateescape")


def accepted(accept: str | None, answer: HttpAnswer, image: ImageCode) -> HttpAnswer:
    """An Accept header that names JSON gets the answer without its line breaks."""
    if image.rewritten:
        types = [each.strip(SPACE) for each in (accept or "").split(",")]
    else:
        types = (accept or "").strip(SPACE).replace(" ", "", 1).split(",")
    if "application/jsonlines" not in types and JSON not in types:
        return answer
    content_type = JSON if image.rewritten else types[0]
    return HttpAnswer(answer.status, answer.body.replace(b"\n", b""), content_type)


def page(status: int, phrase: str) -> HttpAnswer:
    """NGINX's own page for an error."""
    title = f"{status} {phrase}"
    text = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1>"
    text += "</center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    # The connection goes on behind an upstream's failure alone.
    return HttpAnswer(status, text.encode(), "text/html", closes=status not in (502, 504))
