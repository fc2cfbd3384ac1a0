"""What the stacks of an environment are called in their account."""

from infra.parameters.environment import Environment


def stack_name(name: str, environment: Environment, kind: str) -> str:
    """`name`: of the environment. As CDK itself would say it, after the service where there is one."""
    own = f"{name}-{kind}"
    return own if environment.service is None else f"{environment.service}-{own}"
