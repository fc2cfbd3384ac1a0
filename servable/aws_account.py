"""The account that an environment is deployed to, asked as the shell's credentials may ask it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.parameters.environment import Environment
from model_packaging.refusal import PackagingError
from servable.project_folder import state_folder
from servable_local.aws import EmbeddedAws, status

# Whoever looks waits: a question that is not answered in this time is said to be open.
CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 60
_ATTEMPTS = 3
Answered = TypeVar("Answered")
# What AWS, or the way to it, may answer with.
AwsError = (BotoCoreError, ClientError)


class Account:
    """Clients of one region. `aws`: the embedded AWS, in the place of the shell's."""

    def __init__(
        self,
        *,
        region: str,
        number: str,
        aws: EmbeddedAws | None = None,
        endpoint_url: str | None = None,
    ) -> None:
        """`number`: the account that is meant, 12 digits. Nothing is sent yet.

        `endpoint_url`: where all of AWS answers the shell's credentials; None: where it does.
        Raises `PackagingError` where the shell's AWS configuration cannot be read.
        """
        self.endpoint_url = endpoint_url if aws is None else aws.url
        self.region = region
        self.number = number
        self._aws = aws
        self._clients: dict[str, Any] = {}
        try:
            self._session = None if aws else boto3.session.Session(region_name=region)
        except AwsError as wrong:
            problem = f"cannot be read: {wrong}"
            raise PackagingError(Path("AWS configuration"), problem, "check AWS_PROFILE") from None

    def client(self, service: str) -> Any:
        """The same for every call."""
        if service not in self._clients:
            self._clients[service] = self._client(service)
        return self._clients[service]

    def _client(self, service: str) -> Any:
        if self._aws is not None:
            return self._aws.client(service, account=self.number, region=self.region)
        assert self._session is not None  # one or the other
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
        )
        return self._session.client(service, config=config, endpoint_url=self.endpoint_url)

    @property
    def embedded(self) -> bool:
        """Does something else than AWS answer, as far as this was told?"""
        return self.endpoint_url is not None

    def variables(self) -> dict[str, str] | None:
        """The environment of a process that shall reach it; None: this one's."""
        if self._aws is None:
            return None
        return self._aws.environment_over(os.environ, account=self.number, region=self.region)

    def identity(self) -> dict[str, Any]:
        """Account and Arn of who asks. Raises one of `AwsError`."""
        found: dict[str, Any] = self.client("sts").get_caller_identity()
        return found

    def meant(self) -> None:
        """Raises `PackagingError` where the credentials are of another account, or of nobody."""
        try:
            found = str(self.identity()["Account"])
        except AwsError as wrong:
            problem = f"could not be asked: {wrong}"
            raise PackagingError(
                Path("AWS"), problem, "give credentials; `servable doctor`"
            ) from None
        if found != self.number:
            problem = f"these credentials are of account {found}; the environment is {self.number}"
            raise PackagingError(Path("AWS"), problem, f"use credentials of {self.number}")

    def pages(self, service: str, operation: str, key: str, **asked: Any) -> Iterator[Any]:
        """Every item of an operation that answers page by page."""
        for page in self.client(service).get_paginator(operation).paginate(**asked):
            yield from page.get(key, [])

    def all_unless_absent(self, service: str, operation: str, key: str, **asked: Any) -> list[Any]:
        """As of `pages`; none where AWS says that what is asked about is not there."""
        return unless_absent(lambda: list(self.pages(service, operation, key, **asked))) or []


def account_of(
    environment: Environment, *, local: bool = False, endpoint_url: str | None = None
) -> Account:
    """`local`: the embedded AWS that runs. Raises `PackagingError` where none does."""
    aws = status(folder=state_folder()) if local else None
    if local and aws is None:
        problem = "the embedded AWS is not running"
        raise PackagingError(Path("--local"), problem, "`servable local up`, then deploy to it")
    region, number = environment.region, environment.account
    return Account(region=region, number=number, aws=aws, endpoint_url=endpoint_url)


def absent(error: ClientError) -> bool:
    """Whether AWS says that it is not there; each service has words of its own for it."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = str(error.response.get("Error", {}).get("Message", ""))
    words = ("NotFound", "NoSuch", "DoesNotExist", "NonExist", "404", "UnknownResource")
    # SageMaker and CloudFormation answer ValidationException for it.
    said = ("Could not find", "does not exist", "not found")
    return any(one in code for one in words) or any(one in message for one in said)


def unless_absent(call: Callable[..., Answered], **asked: Any) -> Answered | None:
    """What AWS answers; None where it says that this is not there. Raises one of `AwsError`."""
    try:
        return call(**asked)
    except ClientError as error:
        if absent(error):
            return None
        raise
