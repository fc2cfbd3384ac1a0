"""Target and bodies of a load test, in a form that another process can read."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

# SageMaker answers within 60 s or not at all.
# Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Body:
    content: bytes
    content_type: str
    weight: float = 1.0
    """Relative frequency among the bodies."""
    custom_attributes: str | None = None
    accept: str | None = None
    """The Accept header; None: none is sent."""
    target_model: str | None = None
    """A model of a multi-model endpoint."""


@dataclass(frozen=True, kw_only=True)
class LoadTarget:
    """An address that takes POST. Raises ValueError for what is none."""

    url: str
    """Whole, as http://127.0.0.1:8080/invocations."""
    headers: dict[str, str] = field(default_factory=dict)
    """Beside those of the body."""
    signing_region: str | None = None
    """Requests are signed for SageMaker there, with the credentials of the environment."""
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{self.url}: give a whole address, as http://127.0.0.1:8080/invocations"
            )

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def encrypted(self) -> bool:
        return urlsplit(self.url).scheme == "https"

    @property
    def path(self) -> str:
        parts = urlsplit(self.url)
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    @property
    def authority(self) -> str:
        """For the Host header."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


def container(url: str) -> LoadTarget:
    """A container, as `servable serve` prints its address; a path of its own is left as it is."""
    whole = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/invocations"
    return LoadTarget(url=whole)


def endpoint(name: str, *, region: str, runtime_url: str, variant: str | None = None) -> LoadTarget:
    """A deployed endpoint, asked as boto3 would: signed. `runtime_url`: of the runtime API."""
    headers = {"X-Amzn-SageMaker-Target-Variant": variant} if variant else {}
    return LoadTarget(
        url=f"{runtime_url.rstrip('/')}/endpoints/{name}/invocations",
        headers=headers,
        signing_region=region,
    )
