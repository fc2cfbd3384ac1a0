"""Target tracking on invocations per instance."""

from collections.abc import Callable

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
SCALED = VALID + (
    "min_instances = 2\nmax_instances = 12\n"
    "[variants.primary.scaling]\nmax_rps_per_instance = 164\nsafety_factor = 0.7\n"
)
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"


def test_the_target_is_the_safe_share_of_the_measured_rate(synthesise: Synthesise) -> None:
    tracking = synthesise(SCALED).one(POLICY)["TargetTrackingScalingPolicyConfiguration"]
    assert tracking["TargetValue"] == 164 * 0.7 * 60
    assert tracking["PredefinedMetricSpecification"] == {
        "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
    }


def test_the_scalable_target_has_the_files_range_the_endpoint_and_the_linked_role(
    synthesise: Synthesise,
) -> None:
    target = synthesise(SCALED).one(TARGET)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 12)

    found = synthesise(SCALED)
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    assert found.one(TARGET)["ResourceId"] == {
        "Fn::Join": [
            "",
            ["endpoint/", {"Fn::GetAtt": [endpoint, "EndpointName"]}, "/variant/primary"],
        ]
    }

    parts = synthesise(SCALED).one(TARGET)["RoleARN"]["Fn::Join"][1]
    assert parts[-1] == (
        ":role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
        "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    )


def test_each_variant_with_a_scaling_table_scales(synthesise: Synthesise) -> None:
    second = SCALED[SCALED.index("[variants") :].replace("variants.primary", "variants.second")
    assert len(synthesise(SCALED + second).all(TARGET)) == 2
    assert synthesise().all(TARGET) == []
