"""`--redact FILE.py`: redact(body, content_type) -> bytes changes each body before it is kept."""

import dataclasses
import importlib.util
from collections.abc import Callable
from pathlib import Path

from servable.capture_lines import line_id
from servable.captured import CapturedRequest, RecordedAnswer

FUNCTION = "redact"


class RedactionError(Exception):
    """The file has no such function, or it failed. `str()` is a whole sentence without any body."""


class Redaction:
    def __init__(self, file: Path) -> None:
        """Load the file. Raises RedactionError."""
        self._file = file
        spec = importlib.util.spec_from_file_location("servable_redaction", file)
        if spec is None or spec.loader is None:
            raise RedactionError(f"{file}: not a Python file; give --redact FILE.py")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            raise RedactionError(f"{file}: cannot be loaded: {error!r}") from None
        self._redact: Callable[[bytes, str], bytes] | None = getattr(module, FUNCTION, None)
        if not callable(self._redact):
            raise RedactionError(
                f"{file}: define {FUNCTION}(body: bytes, content_type: str) -> bytes"
            )

    def request(self, request: CapturedRequest) -> CapturedRequest:
        """Return the request as it may be kept, its captured answer too. Raises RedactionError."""
        answer = request.answer
        return dataclasses.replace(
            self.metadata(request),
            body=self._body(request.body, request.content_type),
            answer=None if answer is None else self.answer(answer),
        )

    @staticmethod
    def metadata(request: CapturedRequest) -> CapturedRequest:
        """Return the request without the caller's custom attributes and inference id."""
        event_id = request.event_id
        if event_id != request.attributes.get("eventId"):  # it may be the caller's
            event_id = line_id(request.file, request.line)
        attributes = {"eventId": event_id}
        return dataclasses.replace(
            request, event_id=event_id, custom_attributes=None, attributes=attributes
        )

    def answer(self, answer: RecordedAnswer) -> RecordedAnswer:
        """Return the answer as it may be kept. Raises RedactionError."""
        return dataclasses.replace(answer, body=self._body(answer.body, answer.content_type))

    def _body(self, body: bytes, content_type: str) -> bytes:
        assert self._redact is not None  # looked at when it was loaded
        try:
            changed = self._redact(body, content_type)
        except Exception as error:  # the user's code; its text may quote the body
            kind = type(error).__name__
            raise RedactionError(
                f"{self._file}: {FUNCTION} raised {kind} for a body of type {content_type}; nothing "
                "more was kept"
            ) from None
        if not isinstance(changed, bytes):
            kind = type(changed).__name__
            raise RedactionError(f"{self._file}: {FUNCTION} returned {kind}; it must return bytes")
        return changed
