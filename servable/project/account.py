"""The AWS account that an environment is deployed to, called with the shell's credentials."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError

from infra.parameters.environment import Environment
from model_packaging.refusal import PackagingError
from servable.project.folder import state_folder
from servable.project.provided import running_local_aws

if TYPE_CHECKING:
    from servable.project.provided import LocalAws

# A command waits for each call at most this long, and then reports that AWS did not answer.
CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 60
_ATTEMPTS = 3
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Returns the boto3 client of a service.
Clients = Callable[[str], Any]
Answered = TypeVar("Answered")
# The exceptions of a call: AWS answered with an error, or was not reached.
AwsError = (BotoCoreError, ClientError)


class Account:
    """boto3 clients for one account and region. `aws`: the local AWS, if it is used instead of AWS."""

    def __init__(
        self,
        *,
        region: str,
        number: str,
        aws: "LocalAws | None" = None,
        endpoint_url: str | None = None,
    ) -> None:
        """`number`: the expected account id, 12 digits. No request is sent yet.

        `endpoint_url`: the URL of all AWS APIs; None: AWS's own endpoints.
        Raises `PackagingError` if the shell's AWS configuration cannot be read.
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
        """Return the boto3 client of a service; one client is kept for each."""
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
        """Whether the local AWS, or another endpoint URL, answers instead of AWS."""
        address = self.endpoint_url or self.client("sts").meta.endpoint_url
        return self.endpoint_url is not None or urlsplit(address).hostname in LOOPBACK

    def variables(self) -> dict[str, str] | None:
        """Environment variables for a process that uses this account; None: those of this process."""
        if self._aws is None:
            return None
        return self._aws.environment_over(os.environ, account=self.number, region=self.region)

    def identity(self) -> dict[str, Any]:
        """Return Account and Arn of the caller (sts:GetCallerIdentity). Raises one of `AwsError`."""
        identity: dict[str, Any] = self.client("sts").get_caller_identity()
        return identity

    def meant(self) -> None:
        """Raise `PackagingError` if the credentials are missing or belong to another account."""
        try:
            account = str(self.identity()["Account"])
        except AwsError as wrong:
            problem = f"could not be asked: {wrong}"
            checks = "`servable doctor` with the environment's name checks them"
            remedy = remedy_for(wrong, f"give valid credentials; {checks}")
            raise PackagingError(Path("AWS"), problem, remedy) from None
        if account != self.number:
            problem = (
                f"these credentials are of account {account}; the environment is {self.number}"
            )
            raise PackagingError(Path("AWS"), problem, f"use credentials of {self.number}")

    def pages(self, service: str, operation: str, key: str, **parameters: Any) -> Iterator[Any]:
        """Yield every item of a paginated operation."""
        for page in self.client(service).get_paginator(operation).paginate(**parameters):
            yield from page.get(key, [])

    def all_unless_absent(
        self, service: str, operation: str, key: str, **parameters: Any
    ) -> list[Any]:
        """Return the items of `pages`; none if AWS answers that the resource does not exist."""
        return unless_absent(lambda: list(self.pages(service, operation, key, **parameters))) or []


def account_of(
    environment: Environment, *, local: bool = False, endpoint_url: str | None = None
) -> Account:
    """Return the account of an environment. `local`: use the running local AWS.

    Raises `PackagingError` if the local AWS is not running.
    """
    aws = running_local_aws(state_folder()) if local else None
    if local and aws is None:
        problem = "the local AWS is not running"
        raise PackagingError(Path("--local"), problem, "`servable local up`, then deploy to it")
    region, number = environment.region, environment.account
    return Account(region=region, number=number, aws=aws, endpoint_url=endpoint_url)


def remedy_for(error: Exception, otherwise: str) -> str:
    """Return the remedy for a failed call: `otherwise`, unless a local AWS has stopped."""
    url = str(getattr(error, "kwargs", {}).get("endpoint_url", ""))
    if not (isinstance(error, EndpointConnectionError) and urlsplit(url).hostname in LOOPBACK):
        return otherwise
    return (
        "nothing answers at this address, the shell's AWS_ENDPOINT_URL: start the "
        'local AWS with `eval "$(servable local up)"` and deploy again, or use a new shell for AWS itself'
    )


def absent(error: ClientError) -> bool:
    """Whether an error says that the resource does not exist; each service has its own code for it."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = str(error.response.get("Error", {}).get("Message", ""))
    words = ("NotFound", "NoSuch", "DoesNotExist", "NonExist", "404", "UnknownResource")
    # SageMaker and CloudFormation answer ValidationException for it.
    phrases = ("Could not find", "does not exist", "not found")
    return any(word in code for word in words) or any(phrase in message for phrase in phrases)


def unless_absent(call: Callable[..., Answered], **parameters: Any) -> Answered | None:
    """Return the answer of a call, or None if the resource does not exist. Raises one of `AwsError`."""
    try:
        return call(**parameters)
    except ClientError as error:
        if absent(error):
            return None
        raise
