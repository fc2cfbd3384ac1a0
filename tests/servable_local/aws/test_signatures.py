"""Signature Version 4 against botocore's own signers: what they sign is let in, and nothing else."""

import string
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.refusals import AccessError
from tests.servable_local.aws.signing import ACCOUNT, SECRET, Sent, Unsigned, verified

_VISIBLE = string.ascii_letters + string.digits + string.punctuation
_words = st.text(_VISIBLE + " äß中", min_size=1, max_size=12)
_segments = _words.filter(lambda one: one.strip(".") != "")
_paths = st.lists(_segments, max_size=4).map(
    lambda parts: "/" + "/".join(quote(part, safe="-_.~") for part in parts)
)
_queries = st.dictionaries(
    _words.filter(lambda one: not one.lower().startswith("x-amz")), _words, max_size=3
)
# The canonical form has one space where several are.
_values = st.text(_VISIBLE, min_size=1, max_size=12)
_names = st.sampled_from(
    ["X-Amz-Meta-One", "x-amz-meta-t_wo", "X-Amz-Target", "Content-Type", "If-Match"]
)


@st.composite
def _unsigned(draw: st.DrawFn) -> Unsigned:
    query = draw(_queries)
    text = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query.items()
    )
    service = draw(st.sampled_from(["s3", "sagemaker", "sts"]))
    # Of other services botocore's S3 signer knows nothing: they have few paths.
    path = draw(_paths) if service == "s3" else draw(st.sampled_from(["/", "/a/b-c", "/x%20y/z"]))
    return Unsigned(
        service=service,
        method=draw(st.sampled_from(["GET", "PUT", "POST", "DELETE"])),
        target=path + (f"?{text}" if text else ""),
        headers=draw(st.dictionaries(_names, _values, max_size=3)),
        body=draw(st.binary(max_size=40)),
    )


@given(_unsigned())
def test_what_botocore_signs_is_its_account(asked: Unsigned) -> None:
    assert verified(asked.in_header()).account == ACCOUNT
    assert verified(asked.in_query()).account == ACCOUNT


@given(_unsigned(), st.data())
def test_any_change_after_signing_is_refused(asked: Unsigned, data: st.DataObject) -> None:
    changed = _changed(asked.in_header(), data, body_is_signed=True)
    with pytest.raises(AccessError):
        verified(changed)
    changed = _changed(asked.in_query(), data, body_is_signed=asked.service != "s3")
    with pytest.raises(AccessError):
        verified(changed)


@given(_unsigned(), st.booleans(), st.text("0123456789abcdef", min_size=1, max_size=40))
def test_what_another_secret_signed_is_refused(asked: Unsigned, header: bool, other: str) -> None:
    signed = replace(asked, secret=other)
    with pytest.raises(AccessError, match="servable local up"):
        verified(signed.in_header() if header else signed.in_query(), secret=SECRET)


def _changed(sent: Sent, data: st.DataObject, *, body_is_signed: bool) -> Sent:
    request = sent.request
    signed = [
        index
        for index, (name, _) in enumerate(request.headers)
        if name.lower() in _signed_names(sent) or name == "Authorization"
    ]
    kinds = ["method", "path", "query", "header", "no header", "new header"]
    kind = data.draw(st.sampled_from([*kinds, "body"] if body_is_signed else kinds))
    if kind == "method":
        others = [one for one in ("GET", "PUT", "POST", "DELETE") if one != request.method]
        return replace(sent, request=replace(request, method=data.draw(st.sampled_from(others))))
    if kind == "path":
        path, mark, query = request.target.partition("?")
        return sent.with_target(path + "x" + mark + query)
    if kind == "query":
        if not request.pairs:
            return sent.with_target(request.target + "?a=b")
        at = data.draw(st.integers(0, len(request.pairs) - 1))
        pairs = [
            f"{name}={value}{'x' if index == at else ''}"
            for index, (name, value) in enumerate(request.pairs)
        ]
        return sent.with_target(f"{request.path}?{'&'.join(pairs)}")
    if kind == "header":
        at = data.draw(st.sampled_from(signed))
        value = request.headers[at][1]
        where = data.draw(st.integers(0, len(value)))
        return _with_value(sent, at, value[:where] + "0" + value[where:])
    if kind == "no header":
        at = data.draw(st.sampled_from(signed))
        kept = [one for index, one in enumerate(request.headers) if index != at]
        return replace(sent, request=replace(request, headers=kept))
    if kind == "new header":
        added = [*request.headers, ("x-amz-acl", "public-read")]
        return replace(sent, request=replace(request, headers=added))
    at = data.draw(st.integers(0, len(sent.body)))
    byte = bytes([data.draw(st.integers(0, 255))])
    return replace(sent, body=sent.body[:at] + byte + sent.body[at:])


def _signed_names(sent: Sent) -> set[str]:
    found = sent.request.signature()
    assert found is not None
    return set(found.signed_headers)


def _with_value(sent: Sent, at: int, value: str) -> Sent:
    headers = list(sent.request.headers)
    headers[at] = (headers[at][0], value)
    return replace(sent, request=replace(sent.request, headers=headers))
