"""What a container without a network cannot do."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class IsolationInstalls(Rule):
    """pip in a container that can call nobody fails, and the container with it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/mkt-algo-model-internet-free.html
    """

    id = "isolation-installs"
    example = """\
models.ranker.code = "code"
models.ranker.install = "at start"
models.ranker.network_isolation = true"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            if model.network_isolation and model.code and model.install == "at start":
                yield self.finding(
                    loaded,
                    f"models.{name}.install",
                    model.install,
                    'install = "at start" needs the internet, which network_isolation takes away',
                    allowed="vendored",
                    remedy='set install = "vendored", or take network_isolation out',
                    reads=(f"models.{name}.network_isolation",),
                )
