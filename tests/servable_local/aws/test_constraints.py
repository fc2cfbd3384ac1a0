"""SageMaker's stated limits hold here too: what would be refused there is refused here."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import IMAGE, serving
from tests.servable_local.aws.local_account import Account


@pytest.fixture(scope="module")
def account(embedded: LocalAws, launcher: Launcher) -> Account:
    """With the endpoint `ranker` of one variant, `primary`."""
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"a")))
    return account


def _refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as caught:
        call()
    return str(caught.value.response["Error"]["Message"])


def _model(account: Account, name: str, variables: dict[str, str]) -> Any:
    (role,) = account.client("iam").list_roles()["Roles"]
    return account.client("sagemaker").create_model(
        ModelName=name,
        ExecutionRoleArn=role["Arn"],
        PrimaryContainer={
            "Image": IMAGE,
            "ModelDataUrl": f"s3://archives-{account.number}/model.tar.gz",
            "Environment": variables,
        },
    )


def _config(account: Account, *names: str, **more: Any) -> Any:
    (model,) = account.client("sagemaker").list_models()["Models"]
    one = {
        "ModelName": model["ModelName"],
        "InstanceType": "ml.c5.xlarge",
        "InitialInstanceCount": 1,
    }
    return account.client("sagemaker").create_endpoint_config(
        EndpointConfigName=f"of-{len(names)}",
        ProductionVariants=[one | {"VariantName": name} | more for name in names],
    )


def test_a_models_limits_are_said(account: Account) -> None:
    said = _refusal(lambda: _model(account, "many", {f"A{n}": "x" for n in range(101)}))
    assert said == (
        "1 validation error detected: Value at 'primaryContainer.environment' failed to satisfy "
        "constraint: Member must have length less than or equal to 100"
    )
    said = _refusal(lambda: _model(account, "long", {"A": "x" * 1025}))
    assert "'primaryContainer.environment.A.member' failed" in said
    said = _refusal(lambda: _model(account, "with_underscore", {}))
    assert "Value at 'modelName' failed to satisfy constraint" in said
    said = _refusal(lambda: _model(account, "with_underscore", {"A": "x" * 1025}))
    assert said.startswith("2 validation errors detected: ")
    assert "secret" not in _refusal(lambda: _model(account, "long", {"A": "secret" * 200}))


def test_a_configurations_limits_are_said(account: Account) -> None:
    said = _refusal(lambda: _config(account, *(f"v{n}" for n in range(11))))
    assert "'productionVariants' failed to satisfy constraint" in said
    assert "must differ" in _refusal(lambda: _config(account, "one", "one"))
    said = _refusal(lambda: _config(account, "one", VolumeSizeInGB=513))
    assert "'productionVariants.1.member.volumeSizeInGB' failed" in said


def test_scaling_cannot_have_more_at_least_than_at_most(account: Account) -> None:
    said = _refusal(lambda: account.scale(least=3, most=2))
    assert said == "Maximum capacity cannot be less than minimum capacity"
