"""Requests as bytes on the wire: signed for SageMaker, in the weighted mix."""

import itertools
import random
import time
from urllib.parse import quote

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from servable.load.load_target import Body, LoadTarget


class MissingCredentialsError(Exception):
    """No AWS credentials were found. `str()` is a whole sentence."""


class Signer:
    """Signs with the shell's credentials, which are read for each signature since they may expire."""

    def __init__(self, target: LoadTarget) -> None:
        self._target = target
        self._credentials = botocore.session.Session().get_credentials()
        if self._credentials is None:
            raise MissingCredentialsError("no AWS credentials were found; see `aws configure`")

    def signed(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        request = AWSRequest("POST", self._target.url, headers=headers, data=body)
        frozen = self._credentials.get_frozen_credentials()
        SigV4Auth(frozen, "sagemaker", self._target.signing_region).add_auth(request)
        return dict(request.headers.items())


# A signature is good for 5 minutes, for the same bytes as often as they are sent; signing costs
# more than sending. Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
SIGNED_FOR_SECONDS = 60.0
# Long enough that each body comes as often as its weight says.
_ROUND = 10_007


class PreparedRequests:
    """`next()`: the bytes of one request. The same seed gives the same order."""

    def __init__(self, target: LoadTarget, bodies: list[Body], *, seed: int) -> None:
        self._target = target
        self._bodies = bodies
        self._signer = Signer(target) if target.signing_region else None
        self._bytes: list[bytes | None] = [None] * len(bodies)
        self._made_at = [0.0] * len(bodies)
        length = max(_ROUND, 4 * len(bodies))
        weights = [body.weight for body in bodies]
        order = random.Random(seed).choices(range(len(bodies)), weights, k=length)
        self._order = itertools.cycle(order)

    def next(self) -> bytes:
        number = next(self._order)
        prepared = self._bytes[number]
        if prepared is None or (
            self._signer and time.monotonic() - self._made_at[number] > SIGNED_FOR_SECONDS
        ):
            body = self._bodies[number]
            prepared = self._bytes[number] = request_bytes(self._target, body, self._signer)
            self._made_at[number] = time.monotonic()
        return prepared


def request_bytes(target: LoadTarget, body: Body, signer: Signer | None) -> bytes:
    """Return a request as it goes over the connection; signed if there is a signer."""
    headers = {
        "Host": target.authority,
        "Content-Type": body.content_type,
        **target.headers,
    }
    if body.custom_attributes:
        headers["X-Amzn-SageMaker-Custom-Attributes"] = body.custom_attributes
    if body.accept:
        headers["Accept"] = body.accept
    path = target.path
    if body.target_model and signer:
        headers["X-Amzn-SageMaker-Target-Model"] = body.target_model
    elif body.target_model:  # a container takes it in the path
        path = f"/models/{quote(body.target_model, safe='')}/invoke"
    if signer:
        headers = signer.signed(headers, body.content)
    headers["Content-Length"] = str(len(body.content))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body.content
