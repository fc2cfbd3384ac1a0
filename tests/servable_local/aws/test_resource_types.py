"""The resource types against AWS's own schemas, which cfn-lint ships."""

import pytest

from servable_local.aws.resources.registry import TYPES

manager = pytest.importorskip("cfnlint.schema").PROVIDER_SCHEMA_MANAGER
_WITH_SCHEMA = sorted(set(TYPES) - {"AWS::CDK::Metadata"})


@pytest.mark.parametrize("name", _WITH_SCHEMA)
def test_what_makes_a_new_resource_on_aws_makes_one_here(name: str) -> None:
    schema = manager.get_resource_schema("us-east-1", name).schema
    listed = {
        path.removeprefix("/properties/")
        for path in schema.get("createOnlyProperties", [])
        if path.count("/") == 2
    }
    # Refused by name here, or made only by AWS: they never reach an update.
    unknown = {"BucketNamePrefix", "BucketNamespace"}
    assert TYPES[name].create_only == listed - unknown


_LONGEST = 255
# The schema says 64, and its pattern, as the API, 63.
_BY_PATTERN = {"AWS::SageMaker::Endpoint": 63}
_NAMED = [name for name in _WITH_SCHEMA if TYPES[name].name_property]


@pytest.mark.parametrize("name", _NAMED)
def test_a_name_that_is_made_here_is_as_long_as_aws_allows(name: str) -> None:
    stated = manager.get_resource_schema("us-east-1", name).schema["properties"]
    most = stated[TYPES[name].name_property].get("maxLength")
    if most is not None:
        assert TYPES[name].longest_name == min(_LONGEST, _BY_PATTERN.get(name, most))
