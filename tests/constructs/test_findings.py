"""What `servable check` finds is said at synth too, on the stack that it is about."""

from aws_cdk.assertions import Annotations, Match

from tests.conftest import VALID, Environment
from tests.constructs.conftest import stack_of

CANARY = VALID + '[rollout]\nstrategy = "all_at_once"\n'
ACCEPTED = CANARY + '[acknowledge]\nrollout-latency-unwatched = "5xx is all that we promise"\n'


def test_a_warning_that_is_not_accepted_is_an_annotation(environment: Environment) -> None:
    Annotations.from_stack(stack_of(environment, CANARY)).has_warning(
        "/prod/endpoint", Match.string_like_regexp(".*alarms.p99_latency_ms: .*")
    )
    Annotations.from_stack(stack_of(environment, ACCEPTED)).has_no_warning("*", Match.any_value())
    Annotations.from_stack(stack_of(environment)).has_no_info("*", Match.any_value())
