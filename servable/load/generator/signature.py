"""Requests signed for SageMaker, by botocore's own signer."""

import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from servable.load.load_target import Target


class MissingCredentialsError(Exception):
    """`str()` is a whole sentence."""


class Signer:
    """With the credentials of the environment, asked anew each time: they may expire."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._credentials = botocore.session.Session().get_credentials()
        if self._credentials is None:
            raise MissingCredentialsError("no AWS credentials were found; see `aws configure`")

    def signed(self, headers: dict[str, str], body: bytes) -> dict[str, str]:
        request = AWSRequest("POST", self._target.url, headers=headers, data=body)
        frozen = self._credentials.get_frozen_credentials()
        SigV4Auth(frozen, "sagemaker", self._target.signing_region).add_auth(request)
        return dict(request.headers.items())
