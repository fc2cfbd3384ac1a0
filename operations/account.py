"""Where AWS answers: the real one with the user's credentials, or the embedded one."""

import os
from dataclasses import dataclass
from typing import Any

import boto3

from infra.parameters.environment import Environment
from local.aws import EmbeddedAws


@dataclass(frozen=True, kw_only=True)
class Account:
    """`variables`: the environment of a process that shall reach it; None: this one's."""

    region: str
    session: boto3.session.Session
    endpoint_url: str | None = None
    variables: dict[str, str] | None = None

    @property
    def embedded(self) -> bool:
        """Does something else than AWS answer?"""
        return self.endpoint_url is not None

    def client(self, service: str) -> Any:
        return self.session.client(service, endpoint_url=self.endpoint_url)


def account_of(
    environment: Environment, *, aws: EmbeddedAws | None = None, endpoint_url: str | None = None
) -> Account:
    """`aws`: the embedded one, as ENV's account in it. `endpoint_url`: where all of AWS answers."""
    region = environment.region
    if aws is None:
        session = boto3.session.Session(region_name=region)
        return Account(region=region, session=session, endpoint_url=endpoint_url)
    told = aws.environment(account=environment.account, region=region)
    variables = {**os.environ, **told}
    variables.pop("AWS_PROFILE", None)
    session = boto3.session.Session(
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    return Account(region=region, session=session, endpoint_url=aws.url, variables=variables)
