"""Runs in the serving container: a page of HTML becomes the model's inputs, and its outputs one answer.

Servable's handler calls `preprocess` with the request's body, sends the arrays to the model server over
gRPC, and calls `postprocess` with what it answers.
"""

import math
import zlib
from html.parser import HTMLParser
from typing import Any

import numpy as np

from servable_handler.hooks import InputError

ELEMENTS, WORDS, COUNTS = 512, 1024, 3
# Bucket 0 is padding.
TAG_BUCKETS, WORD_BUCKETS = 128, 1024
PAGE_TYPES = ("home", "category", "product", "cart", "checkout", "article", "other")
LANGUAGES = ("de", "en", "es", "fr", "other")
# What is parsed at once: nothing is parsed behind the last element and word that are used.
PIECE_CHARACTERS = 65_536
WITHOUT_END = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
NOT_READ = frozenset({"script", "style", "template"})


class HtmlPage(HTMLParser):
    """The elements of a page with their depth, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[int] = []
        self.depths: list[float] = []
        self.words: list[int] = []
        self.links = 0
        self._open: list[str] = []

    @property
    def full(self) -> bool:
        return len(self.tags) >= ELEMENTS and len(self.words) >= WORDS

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(bucket(tag, TAG_BUCKETS))
        self.depths.append(len(self._open) / 10)
        self.links += tag == "a"
        if tag not in WITHOUT_END:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open[-20:]:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not NOT_READ.intersection(self._open[-2:]):
            self.words += [bucket(word, WORD_BUCKETS) for word in data.lower().split()]


def bucket(text: str, buckets: int) -> int:
    """The same bucket in every process, which Python's own hash is not."""
    return 1 + zlib.crc32(text.encode("utf-8", "replace")) % (buckets - 1)


def preprocess(body: bytes, context: Any) -> dict[str, Any]:
    """The arrays of one page: tags and words int64, depths and counts float32."""
    page, text = HtmlPage(), body.decode("utf-8", "replace")
    for start in range(0, len(text), PIECE_CHARACTERS):
        page.feed(text[start : start + PIECE_CHARACTERS])
        if page.full:
            break
    if not page.tags:
        raise InputError("the body has no HTML element; send a page of HTML, encoded as UTF-8")
    counts = [len(text), len(page.tags), page.links]
    return {
        "tags": padded(page.tags, ELEMENTS, np.int64),
        "depths": padded(page.depths, ELEMENTS, np.float32)[:, :, np.newaxis],
        "words": padded(page.words, WORDS, np.int64),
        "counts": np.array([[math.log1p(count) / 10 for count in counts]], np.float32),
    }


def padded(values: list[Any], length: int, dtype: Any) -> Any:
    """One row of `length` values."""
    row = np.zeros((1, length), dtype)
    row[0, : len(values)] = values[:length]
    return row


def postprocess(tensors: dict[str, Any], context: Any) -> dict[str, Any]:
    """The answer to every question about the page; `zones` has a score for each of its elements."""
    return {
        "page_type": labelled(tensors["page_type"][0], PAGE_TYPES),
        "language": labelled(tensors["language"][0], LANGUAGES),
        "sells": float(tensors["sells"][0, 0]),
        "zones": tensors["zones"][0].tolist(),
    }


def labelled(scores: Any, labels: tuple[str, ...]) -> dict[str, Any]:
    best = int(scores.argmax())
    return {"label": labels[best], "score": float(scores[best])}
