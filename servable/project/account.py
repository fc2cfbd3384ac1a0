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
from servable.project.folder import find_state_folder
from servable.project.provided import find_local_aws

if TYPE_CHECKING:
    from servable.project.provided import LocalAws

# A command waits for each call at most this long, and then reports that AWS did not answer.
CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, _ATTEMPTS = 5, 60, 3
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Returns the boto3 client of a service.
Clients = Callable[[str], Any]
Answered = TypeVar("Answered")
# The exceptions of a call: AWS answered with an error, or was not reached.
AwsError = (BotoCoreError, ClientError)


class Account:
    """The boto3 clients for one account and Region. `aws`: the local AWS, if it is used instead of AWS."""

    def __init__(
        self,
        *,
        region: str,
        number: str,
        aws: "LocalAws | None" = None,
        endpoint_url: str | None = None,
    ) -> None:
        """Store the expected account ID `number` (12 digits); no request is sent yet.

        `endpoint_url`: the URL of all AWS APIs; None means AWS's own endpoints. Raises
        `PackagingError` if the shell's AWS configuration cannot be read.
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
        """Return the boto3 client of a service; repeated calls return the same client."""
        client = self._clients.get(service)
        if client is None and self._aws is not None:
            client = self._aws.client(service, account=self.number, region=self.region)
        elif client is None:
            assert self._session is not None  # without a local AWS there is a session
            config = Config(
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                read_timeout=READ_TIMEOUT_SECONDS,
                retries={"total_max_attempts": _ATTEMPTS, "mode": "standard"},
            )
            client = self._session.client(service, config=config, endpoint_url=self.endpoint_url)
        self._clients[service] = client
        return client

    @property
    def has_custom_endpoint(self) -> bool:
        """Return whether requests go to the local AWS or another URL instead of AWS."""
        address = self.endpoint_url or self.client("sts").meta.endpoint_url
        return self.endpoint_url is not None or urlsplit(address).hostname in LOOPBACK

    def build_process_variables(self) -> dict[str, str] | None:
        """Return a process's variables for this account; None: inherit this one's."""
        if self._aws is None:
            return None
        return self._aws.environment_over(os.environ, account=self.number, region=self.region)

    def fetch_identity(self) -> dict[str, Any]:
        """Return the caller's Account and Arn (sts:GetCallerIdentity). Raises one of `AwsError`."""
        identity: dict[str, Any] = self.client("sts").get_caller_identity()
        return identity

    def check_credentials(self) -> None:
        """Raise `PackagingError` if the credentials are missing or of a different account."""
        try:
            account = str(self.fetch_identity()["Account"])
        except AwsError as wrong:
            problem = f"could not be reached: {wrong}"
            checks = "`servable doctor` with the environment's name checks them"
            remedy = choose_remedy(wrong, f"use valid credentials; {checks}")
            raise PackagingError(Path("AWS"), problem, remedy) from None
        if account != self.number:
            given = f"these credentials belong to account {account}"
            problem = f"{given}, but the environment is {self.number}"
            raise PackagingError(Path("AWS"), problem, f"use credentials of account {self.number}")

    def iterate_items(
        self, service: str, operation: str, key: str, **parameters: Any
    ) -> Iterator[Any]:
        """Yield every item of a paginated operation."""
        for page in self.client(service).get_paginator(operation).paginate(**parameters):
            yield from page.get(key, [])

    def list_or_empty(self, service: str, operation: str, key: str, **parameters: Any) -> list[Any]:
        """Return the items of a paginated operation, or [] if the resource doesn't exist."""
        items = self.iterate_items(service, operation, key, **parameters)
        return fetch_or_none(lambda: list(items)) or []


def open_account(
    environment: Environment, *, local: bool = False, endpoint_url: str | None = None
) -> Account:
    """Return an environment's account; PackagingError if a wanted `local` AWS isn't running."""
    aws = find_local_aws(find_state_folder()) if local else None
    if local and aws is None:
        problem = "the local AWS is not running"
        raise PackagingError(Path("--local"), problem, "`servable local up`, then deploy to it")
    region, number = environment.region, environment.account
    return Account(region=region, number=number, aws=aws, endpoint_url=endpoint_url)


def choose_remedy(error: Exception, otherwise: str) -> str:
    """Return `otherwise`, unless the failed call went to a local AWS that has stopped."""
    url = str(getattr(error, "kwargs", {}).get("endpoint_url", ""))
    if not (isinstance(error, EndpointConnectionError) and urlsplit(url).hostname in LOOPBACK):
        return otherwise
    return (
        "nothing responds at this address, which AWS_ENDPOINT_URL sets in this shell; start the "
        'local AWS with `eval "$(servable local up)"` and deploy again, or use a new shell for AWS itself'
    )


def is_not_found(error: ClientError) -> bool:
    """Return whether the resource doesn't exist; each service has its own error code for it."""
    details = error.response.get("Error", {})
    code, message = (str(details.get(key, "")) for key in ("Code", "Message"))
    words = ("NotFound", "NoSuch", "DoesNotExist", "NonExist", "404", "UnknownResource")
    # SageMaker and CloudFormation answer ValidationException for it.
    phrases = ("Could not find", "does not exist", "not found")
    return any(word in code for word in words) or any(phrase in message for phrase in phrases)


def fetch_or_none(call: Callable[..., Answered], **parameters: Any) -> Answered | None:
    """Return a call's response; None if the resource doesn't exist. Raises other `AwsError`s."""
    try:
        return call(**parameters)
    except ClientError as error:
        if is_not_found(error):
            return None
        raise


def split_uri(uri: str) -> tuple[str, str]:
    """Return the bucket and key of s3://BUCKET/KEY."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
