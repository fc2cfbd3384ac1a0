"""A content type that one table has and another lacks is found here."""

from infra.parameters.batch.job import OF_LINES
from infra.parameters.rollout import CONTENT_TYPES
from model_packaging.requests.known_requests import TYPES_READ, Reader
from servable.answers.outputs import _READERS
from servable_tensors.codecs import CODECS, CSV
from servable_tensors.text_bodies import TYPES_OF_JSON_LINES
from tests.checkouts import ROOT


def test_every_content_type_of_the_handler_is_known_to_the_commands() -> None:
    assert set(TYPES_READ[Reader.SERVABLE]) == set(CODECS)
    assert set(_READERS) == set(CODECS)
    assert set(CONTENT_TYPES.values()) <= set(CODECS)
    assert set(TYPES_READ[Reader.NGINX]) <= set(CODECS)
    assert set(OF_LINES) == {CSV, *TYPES_OF_JSON_LINES}
    page = (ROOT / "docs/serving.md").read_text()
    assert [name for name in CODECS if name not in page] == []
