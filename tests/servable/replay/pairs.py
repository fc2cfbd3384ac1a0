"""Streams of answers for tests: a small model's answers in some form, and what a change makes of them."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from infra.parameters.replay import Replay
from servable.captured.lines import RecordedAnswer
from servable.replay.answers import AnswerPair
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import list_exceeded
from servable_tensors import wire
from servable_tensors.codecs import CODECS, JSON
from servable_tensors.tensors import Array
from tests.servable.replay.captures import request

Answer = Mapping[str, Array]
Change = Callable[[int, Answer], Answer]

DEFAULTS = Replay()
ROWS, CLASSES = 4, 6
KERNEL = np.random.default_rng(1).normal(size=(8, CLASSES)).astype(np.float32)
CLASS_NAMES = np.array([f"class {number}".encode() for number in range(CLASSES)], object)


def model(inputs: Array, kernel: Array = KERNEL, bias: float = 0.0) -> Answer:
    """A classifier: scores, logits, the number and the name of the best class, and a regression around 0."""
    logits = (inputs @ kernel).astype(np.float32) + np.float32(bias) * np.arange(
        CLASSES, dtype=np.float32
    )
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
    best = scores.argmax(axis=1)
    return {
        "scores": scores,
        "logits": logits,
        "best": best.astype(np.int64),
        "name": CLASS_NAMES[best],
        "offset": logits.mean(axis=1),
    }


@functools.cache
def inputs_of(number: int) -> Array:
    return np.random.default_rng(number).normal(size=(ROWS, 8)).astype(np.float32)


def written(answer: Answer, content_type: str = JSON) -> bytes:
    return CODECS[content_type].encode_response(answer, rows=True, model_spec=wire.ModelSpec)


def recorded(body: bytes, content_type: str = JSON, **more: object) -> RecordedAnswer:
    return RecordedAnswer(body=body, content_type=content_type, **more)  # type: ignore[arg-type]


def pair_of(number: int, expected: RecordedAnswer | None, answered: RecordedAnswer) -> AnswerPair:
    file = "AllTraffic/2026/11/22/09/a.jsonl"
    sent = request(number, answer=expected, file=file, line=number + 1)
    return AnswerPair(request=sent, answered=answered)


def in_json(number: int, expected: object, answered: object) -> AnswerPair:
    return pair_of(number, *(recorded(json.dumps(one).encode()) for one in (expected, answered)))


def pairs(change: Change, *, count: int = 20, content_type: str = JSON) -> Iterator[AnswerPair]:
    """`count` requests of four rows, answered before and after the change."""
    for number in range(count):
        before = model(inputs_of(number))
        expected, answered = (
            recorded(written(one, content_type), content_type, status=200)
            for one in (before, change(number, before))
        )
        yield pair_of(number, expected, answered)


def comparison_of(
    several: Iterable[AnswerPair], settings: Replay = DEFAULTS, **more: str
) -> Comparison:
    comparison = Comparison(settings, **more)
    for pair in several:
        comparison.add(pair)
    comparison.finish()
    return comparison


def gate(several: Iterable[AnswerPair]) -> str:
    """Return the gate's sentences, one a line; empty if the gate is met."""
    return "\n".join(list_exceeded(comparison_of(several), DEFAULTS))
