"""How a plan names the versions of the model registry."""

from typing import Any

from servable.plan.template_changes import TemplateChange, list_changes


def model(package: Any) -> dict[str, Any]:
    container = {"ModelPackageName": package} if package else {"ModelDataUrl": "s3://b/a.tar.gz"}
    properties = {"PrimaryContainer": container}
    return {"Resources": {"Model": {"Type": "AWS::SageMaker::Model", "Properties": properties}}}


def arn(version: str, *, region: str = "eu-west-1") -> Any:
    """As `artifact.model_package` is synthesised."""
    rest = f":sagemaker:{region}:111111111111:model-package/{version}"
    return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, rest]]}


def change(before: Any, after: Any) -> tuple[str | None, str | None]:
    listed = list_changes(model(before), model(after))
    (package,) = [one for one in listed if one.what == "PrimaryContainer.ModelPackageName"]
    assert isinstance(package, TemplateChange)
    return package.before, package.after


def test_another_version_is_named_with_the_old_one() -> None:
    assert change(arn("ranker/7"), arn("ranker/8")) == ("ranker/7", "ranker/8")
    assert change(arn("ranker/7"), arn("search/1")) == ("ranker/7", "search/1")
    whole = "arn:aws:sagemaker:eu-west-1:222222222222:model-package/ranker"
    assert change(f"{whole}/7", f"{whole}/8") == ("ranker/7", "ranker/8")


def test_a_version_of_another_registry_or_instead_of_an_archive_is_named_whole() -> None:
    before, after = change(arn("ranker/7"), arn("ranker/7", region="us-east-1"))
    assert (before or "").endswith("eu-west-1:111111111111:model-package/ranker/7")
    assert (after or "").endswith("us-east-1:111111111111:model-package/ranker/7")
    for new in [True, False]:
        pair = change(None, arn("ranker/7")) if new else change(arn("ranker/7"), None)
        whole = "arn:${AWS::Partition}:sagemaker:eu-west-1:111111111111:model-package/ranker/7"
        assert whole in pair
