"""Clients for a local AWS, which sign with the secret of its run.

botocore is imported on the first request: finding that no local AWS runs doesn't need it.
"""

import functools
import json
import os
import sys
import threading
import traceback
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

PREFIX = "/servable/"
# The service in the signatures of requests to these paths.
SERVICE = "servable"
HEALTH_PATH = PREFIX + "health"
CLOCK_PATH = PREFIX + "clock"
FAULT_PATH = PREFIX + "fault"
_lock = threading.Lock()
_clients: dict[tuple[str, str, str, str, str], Any] = {}
_JSON = {"Content-Type": "application/json"}
# Controls are independent of accounts; an access key is an account number.
_NO_ACCOUNT, _NO_REGION = "000000000000", "local"
_Service = TypeVar("_Service")


@functools.cache
def load_botocore_session() -> Any:
    """Return the shared botocore session, which reads each service's model (50 to 200 ms) once."""
    import botocore.session

    # Without profile and ~/.aws: a missing profile would be an error.
    none = (None, None, os.devnull, None)
    given = {"profile": (None,) * 4, "config_file": none, "credentials_file": none}
    return botocore.session.Session(session_vars=given)


@functools.cache
def _load_boto3_session() -> Any:
    import boto3

    return boto3.session.Session(botocore_session=load_botocore_session(), region_name="us-east-1")


@functools.cache
def load_service_model(service: str) -> Any:
    """Return botocore's model of a service (botocore.model.ServiceModel), as clients read it."""
    return load_botocore_session().get_service_model(service)


@dataclass(frozen=True)
class Access:
    """The URL of a local AWS, and the secret access key that it accepts."""

    url: str
    secret_access_key: str = field(repr=False)

    def client(self, service: str, *, account: str, region: str) -> Any:
        """Return a boto3 client for `account`, which the server reads from the access key."""
        from botocore.config import Config

        key = (self.url, self.secret_access_key, service, account, region)
        with _lock:  # creating boto3 clients is not thread-safe, using them is
            if key not in _clients:
                config = Config(
                    # One attempt: a retry would only delay the same error.
                    retries={"total_max_attempts": 1},
                    connect_timeout=10,
                    read_timeout=120,
                    max_pool_connections=20,
                    proxies={},
                    s3={"addressing_style": "path"},
                    # By default, boto3 presigns with Signature Version 2.
                    signature_version="s3v4" if service == "s3" else None,
                )
                _clients[key] = _load_boto3_session().client(
                    service,
                    endpoint_url=self.url,
                    region_name=region,
                    aws_access_key_id=account,
                    aws_secret_access_key=self.secret_access_key,
                    config=config,
                )
            return _clients[key]

    def call_control(
        self, path: str, posted: Mapping[str, Any] | None = None, *, timeout_seconds: float = 120.0
    ) -> dict[str, Any]:
        """Call a control of aws/request_router.py. Raises OSError, or HTTPError if it is rejected."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials

        body = None if posted is None else json.dumps(posted).encode()
        method, headers = ("GET", {}) if body is None else ("POST", _JSON)
        request = AWSRequest(method, self.url + path, headers, body)
        credentials = Credentials(_NO_ACCOUNT, self.secret_access_key)
        SigV4Auth(credentials, SERVICE, _NO_REGION).add_auth(request)
        plain = urllib.request.Request(self.url + path, body, dict(request.headers.items()))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(plain, timeout=timeout_seconds) as answer:
            parsed: dict[str, Any] = json.loads(answer.read())
            return parsed


class Loopback:
    """The clients for one account and Region of a local AWS."""

    def __init__(self, access: Access, *, account: str, region: str) -> None:
        self._access = access
        self.account = account
        self.region = region

    def client(self, service: str, region: str | None = None) -> Any:
        return self._access.client(service, account=self.account, region=region or self.region)

    def send_event(
        self, source: str, kind: str, detail: Mapping[str, Any], resource: str, at: datetime
    ) -> None:
        """Send an event of an AWS service to the rules of the account's default bus.

        A failure of a rule's target is logged and doesn't reach the service that sends the event.
        """
        entry = {
            "Time": at, "Source": source, "DetailType": kind, "Detail": json.dumps(detail),
            "Resources": [resource],
        }  # fmt: skip
        try:
            self.client("events").put_events(Entries=[entry])
        except Exception:
            print(f"EventBridge did not accept {kind} of {resource}", file=sys.stderr)
            traceback.print_exc()


class Regions(Generic[_Service]):
    """One service for each account and Region, created on first use."""

    def __init__(self, access: Access, make: Callable[[Loopback], _Service]) -> None:
        self._access = access
        self._make = make
        self._all: dict[tuple[str, str], _Service] = {}
        self._lock = threading.Lock()

    def provide_service(self, account: str, region: str) -> _Service:
        with self._lock:
            key = (account, region)
            if key not in self._all:
                aws = Loopback(self._access, account=account, region=region)
                self._all[key] = self._make(aws)
            return self._all[key]

    def list_services(self) -> list[_Service]:
        with self._lock:
            return list(self._all.values())
