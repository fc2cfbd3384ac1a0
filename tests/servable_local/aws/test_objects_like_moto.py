"""Objects in files are answered as moto answers: random requests, to moto as it is and to ours."""

import hashlib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import settings as settings_of_moto
from moto.moto_server.werkzeug_app import create_backend_app
from moto.s3 import models, responses
from moto.s3.models import FakeKey, FakeMultipart
from werkzeug.test import EnvironBuilder, run_wsgi_app

from servable_local.aws.contents import ENVIRON, receive_object
from servable_local.aws.moto_patches import s3
from servable_local.aws.signed_request import ReceivedRequest

_ABSENT: Any = object()
_PATCHED: list[tuple[Any, str]] = [
    *((FakeKey, name) for name in ("__new__", "__del__", "__getstate__", "__setstate__")),
    *((FakeKey, name) for name in ("value", "etag")),
    *((FakeMultipart, name) for name in ("__new__", "complete")),
    *((responses, name) for name in ("compute_checksum", "S3Response")),
]
# Taken when the tests are collected, before any local AWS begins.
_MOTOS = [vars(owner).get(name, _ABSENT) for owner, name in _PATCHED]
_LEAST_PART_BYTES = 5
_VOLATILE = {"date", "last-modified", "x-amzn-requestid", "x-amz-request-id"}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_TIMES = re.compile(r"<(LastModified|CreationDate|Initiated|RequestId|HostId)>[^<]*</\1>")
_NAMES = re.compile(r"<(UploadId|VersionId|DeleteMarkerVersionId)>([^<]*)</\1>")

Answer = tuple[int, list[tuple[str, str]], str]
Step = tuple[Any, ...]

KEYS = st.sampled_from(["a", "a", "b/c", "b/d é"])
BODIES = st.binary(max_size=40)
PARTS = st.one_of(st.binary(min_size=_LEAST_PART_BYTES, max_size=9), BODIES)
RANGES = st.builds("bytes={}-{}".format, *[st.sampled_from(["", "0", "3", "7", "25", "99"])] * 2)
ALGORITHMS = st.sampled_from(["CRC32", "SHA256", "SHA1"])
_PUT_HEADERS = st.sampled_from([
    {}, {"x-amz-server-side-encryption": "AES256"}, {"If-None-Match": "*"},
    {"x-amz-meta-who": "us", "Content-Type": "text/plain", "x-amz-tagging": "a=1&b=2"},
    {"x-amz-sdk-checksum-algorithm": "CRC32"}, {"x-amz-storage-class": "GLACIER"},
    {"x-amz-sdk-checksum-algorithm": "SHA256", "x-amz-checksum-sha256": "Z2l2ZW4="},
])  # fmt: skip
_GET_HEADERS = st.one_of(
    st.just({}),
    st.builds(lambda span: {"Range": span}, RANGES),
    st.just({"x-amz-checksum-mode": "ENABLED"}),
    st.just({"If-None-Match": hashlib.md5(b"", usedforsecurity=False).hexdigest()}),
    st.just({"x-amz-object-attributes": "ETag,ObjectSize,StorageClass"}),
)
_COPY_HEADERS = st.sampled_from(
    [{}, {"x-amz-checksum-algorithm": "SHA1"}, {"x-amz-metadata-directive": "REPLACE"}]
)
_SHORT = st.sampled_from(["a", "b/c"])
_LISTED = st.sampled_from(["list-type=2&prefix=b/", "versions", "uploads"])
_NUMBERS = st.integers(1, 2)
_SOME = st.lists(_NUMBERS, max_size=2, unique=True).map(sorted)
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, BODIES, _PUT_HEADERS),
        st.tuples(st.just("get"), _SHORT, st.sampled_from(["GET", "HEAD"]), _GET_HEADERS),
        st.tuples(st.just("copy"), KEYS, KEYS, _COPY_HEADERS),
        st.tuples(st.just("delete"), st.sampled_from(["b/c", "b/d é"])),
        st.tuples(st.just("list"), _LISTED),
        st.tuples(st.just("tag"), KEYS),
        st.tuples(st.just("begin"), KEYS, st.one_of(st.none(), ALGORITHMS)),
        st.tuples(st.just("part"), _NUMBERS, PARTS),
        st.tuples(st.just("part copy"), _NUMBERS, KEYS, st.one_of(st.none(), RANGES)),
        st.tuples(st.just("parts")),
        # Those that are there, and those that may not be.
        st.tuples(st.just("complete"), st.one_of(st.none(), _SOME)),
        st.tuples(st.just("abort")),
    ),
    min_size=4,
    max_size=14,
)


@contextmanager
def _moto_as_it_is() -> Iterator[None]:
    ours = [vars(owner).get(name, _ABSENT) for owner, name in _PATCHED]
    _set(_MOTOS)
    try:
        yield
    finally:
        _set(ours)


def _set(values: Sequence[Any]) -> None:
    for (owner, name), value in zip(_PATCHED, values, strict=True):
        if value is not _ABSENT:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)


class Caller:
    """One who sends steps to an application, and keeps what later steps need."""

    def __init__(self, application: Any, account: str, folder: Path | None) -> None:
        self._application = application
        self._bucket = f"bucket-{account}"
        self._account = account
        self._folder = folder
        self._names: dict[str, str] = {}
        self._upload = ("a", "none")
        self._etags: dict[int, str] = {}

    def send(self, method: str, key: str, query: str = "", headers: Mapping[str, str] | None = None,
             body: bytes = b"") -> Answer:  # fmt: skip
        """`folder`: bodies of PUT are received into it, as long ones are."""
        sent = {"Host": "s3.amazonaws.com", "Authorization": "AWS4 x/y/us-east-1/s3"}
        sent |= headers or {}
        path = f"/{self._bucket}/{key}"
        options: dict[str, Any] = {"query_string": query, "method": method, "headers": sent}
        environ = EnvironBuilder(path, data=body, **options).get_environ()
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = self._account
        if self._folder and method == "PUT" and key:
            head = ReceivedRequest(method, f"{path}?{query}", list(sent.items()))
            environ[ENVIRON] = receive_object(self._folder, head, io.BytesIO(body), len(body))
            environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(), "0"
        chunks, status, answered = run_wsgi_app(self._application, environ)
        return int(status[:3]), *self._plain(list(answered), b"".join(chunks))

    def _plain(
        self, headers: list[tuple[str, str]], body: bytes
    ) -> tuple[list[tuple[str, str]], str]:
        """Without times, and with the random names in the order in which they came."""
        text = _ADDRESS.sub("", body.decode("latin-1").replace(self._account, "account"))
        for random in [name for _, name in _NAMES.findall(text)] + [
            value for name, value in headers if name.lower() == "x-amz-version-id"
        ]:
            self._names.setdefault(random, f"name {len(self._names)}")
        for random, plain in self._names.items():
            if len(random) > 10:
                text = text.replace(random, plain)
        kept = [
            (name.lower(), self._names.get(value, value).replace(self._bucket, "bucket"))
            for name, value in headers
            if name.lower() not in _VOLATILE
        ]
        if _TIMES.search(text) or "name " in text:  # as long as the times and names in it are
            kept = [one for one in kept if one[0] != "content-length"]
        return sorted(kept), _TIMES.sub(r"<\1/>", text)

    def step(self, kind: str, *more: Any) -> Answer:
        return getattr(self, "_" + kind.replace(" ", "_"))(*more)  # type: ignore[no-any-return]

    def _put(self, key: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        return self.send("PUT", key, headers=headers, body=body)

    def _get(self, key: str, method: str, headers: Mapping[str, str]) -> Answer:
        query = "attributes" if "x-amz-object-attributes" in headers and method == "GET" else ""
        return self.send(method, key, query, headers)

    def _copy(self, source: str, key: str, headers: Mapping[str, str]) -> Answer:
        return self.send("PUT", key, headers={**self._build_source_options(source), **headers})

    def _build_source_options(self, key: str) -> dict[str, str]:
        return {"x-amz-copy-source": quote(f"{self._bucket}/{key}")}

    def _delete(self, key: str) -> Answer:
        return self.send("DELETE", key)

    def _list(self, query: str) -> Answer:
        return self.send("GET", "", query)

    def _tag(self, key: str) -> Answer:
        tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>"
        return self.send("PUT", key, "tagging", body=tags.encode())

    def _begin(self, key: str, algorithm: str | None) -> Answer:
        headers = {"x-amz-checksum-algorithm": algorithm} if algorithm else {}
        known = set(self._names)
        answer = self.send("POST", key, "uploads", headers)
        (upload,) = set(self._names) - known
        self._upload, self._etags = (key, upload), {}
        return answer

    def _part(self, number: int, body: bytes) -> Answer:
        key, upload = self._upload
        self._etags[number] = hashlib.md5(body, usedforsecurity=False).hexdigest()
        return self.send("PUT", key, f"uploadId={upload}&partNumber={number}", body=body)

    def _part_copy(self, number: int, source: str, span: str | None) -> Answer:
        key, upload = self._upload
        headers = self._build_source_options(source)
        headers |= {"x-amz-copy-source-range": span} if span else {}
        answer = self.send("PUT", key, f"uploadId={upload}&partNumber={number}", headers)
        if etag := dict(answer[1]).get("etag"):
            self._etags[number] = etag.strip('"')
        return answer

    def _parts(self) -> Answer:
        return self.send("GET", self._upload[0], f"uploadId={self._upload[1]}")

    def _complete(self, numbers: Sequence[int] | None) -> Answer:
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{self._etags.get(number, 'no')}</ETag></Part>"
            for number in (sorted(self._etags) if numbers is None else numbers)
        )
        key, upload = self._upload
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        return self.send("POST", key, f"uploadId={upload}", body=body.encode())

    def _abort(self) -> Answer:
        return self.send("DELETE", self._upload[0], f"uploadId={self._upload[1]}")


@pytest.fixture(scope="module")
def applications() -> tuple[Any, Any]:
    """moto's S3 as it is, and with our patches."""
    with _moto_as_it_is():
        upstream = create_backend_app("s3")
        s3.install()
        return upstream, create_backend_app("s3")


_number = iter(range(100_000_000_000, 999_999_999_999, 2))


def answers(caller: Caller, steps: Sequence[Step], *, versioned: bool) -> list[Answer]:
    """To each step; failures of moto itself count as answers."""
    found = [caller.send("PUT", "")]
    if versioned:
        status = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        found.append(caller.send("PUT", "", "versioning", body=status))
    first: Sequence[Step] = ("put", "a", b"the bytes of a", {}), ("begin", "b/c", None)
    for step in [*first, *steps]:
        try:
            found.append(caller.step(*step))
        except Exception as error:
            found.append((0, [], type(error).__name__))
    return found


def compared(
    applications: tuple[Any, Any], folder: Path, steps: Sequence[Step], *, versioned: bool
) -> tuple[list[Answer], list[Answer]]:
    """Upstream's answers, and ours."""
    first = next(_number)
    with pytest.MonkeyPatch.context() as patched, _moto_as_it_is():
        for module in (models, settings_of_moto):
            patched.setattr(module, "S3_UPLOAD_PART_MIN_SIZE", _LEAST_PART_BYTES)
        upstream = Caller(applications[0], str(first), None)
        wanted = answers(upstream, steps, versioned=versioned)
        s3.install()
        ours = Caller(applications[1], str(first + 1), folder)
        return wanted, answers(ours, steps, versioned=versioned)


@pytest.mark.long
@given(STEPS, st.booleans())
@settings(max_examples=25)
def test_objects_in_files_are_answered_as_moto_answers(
    applications: Any, tmp_path_factory: pytest.TempPathFactory, steps: list[Step], versioned: bool
) -> None:
    folder = tmp_path_factory.getbasetemp() / "like moto"
    folder.mkdir(exist_ok=True)
    wanted, found = compared(applications, folder, steps, versioned=versioned)
    assert found == wanted
