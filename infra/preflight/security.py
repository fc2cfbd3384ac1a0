"""What an environment may not be deployed without, and whom it lets in."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.policy.required_ids import NETWORK, missing_ids
from infra.preflight.rule import Rule


class SecurityIdsMissing(Rule):
    """An environment that must be in a VPC and use your keys says which; all that lacks at once.

    Source: docs/security.md
    """

    id = "security-ids-missing"
    example = 'security.require = ["network", "keys"]'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        given = {
            "network.subnets": environment.network.subnets,
            "network.security_groups": environment.network.security_groups,
            "endpoint.volume_kms_key": environment.endpoint.volume_kms_key,
            "endpoint.log_kms_key": environment.endpoint.log_kms_key,
            "alarms.topic_kms_key": environment.alarms.topic_kms_key,
            "capture.kms_key": environment.capture.kms_key if environment.capture else None,
        }
        missing = missing_ids(
            environment.security.require,
            given,
            instance_types=[one.instance_type or "" for one in environment.variants.values()],
            captures=environment.capture is not None,
        )
        if missing:
            yield self.finding(
                loaded,
                "security.require",
                environment.security.require,
                f"ids are required and not given: {', '.join(missing)}",
                allowed="all of them, or a shorter security.require",
                remedy=f"add {', '.join(map(_line, missing))}",
                reads=tuple(missing),
            )


def _line(key: str) -> str:
    return f'{key} = ["…"]' if key in NETWORK else f'{key} = "…"'


class CallersOfAnotherAccount(Rule):
    """An endpoint has no policy of its own: a role of another account cannot be let in by one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/security_iam_service-with-iam.html
    (resource-based policies: not supported for endpoints)
    """

    id = "callers-of-another-account"
    example = 'endpoint.callers = ["arn:aws:iam::222222222222:role/web"]'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for caller in environment.endpoint.callers:
            if caller.split(":")[4] != environment.account:
                yield self.finding(
                    loaded,
                    "endpoint.callers",
                    caller,
                    f"{caller} is not of account {environment.account}",
                    allowed=f"roles of {environment.account}",
                    remedy="name a role here that the other account's role may take on",
                    reads=("account",),
                )
