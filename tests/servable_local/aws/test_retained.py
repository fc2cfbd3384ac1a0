"""Counts and weights across an update: retained, excluded, or taken from the file."""

from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account


def _scaled_out_then_updated(account: Account, **retained: object) -> dict[str, object]:
    """Five instances of weight 9 since the first deployment; the file says two of 0.5."""
    account.deploy(serving(account.put_archive(b"old", "old")))
    sagemaker = account.client("sagemaker")
    account.change_capacities(
        "ranker", VariantName="primary", DesiredInstanceCount=5, DesiredWeight=9
    )
    template = serving(account.put_archive(b"new", "new"))
    endpoint = template["Resources"]["Endpoint"]["Properties"]
    for name in ("RetainAllVariantProperties", "ExcludeRetainedVariantProperties"):
        endpoint.pop(name)
    endpoint |= retained
    account.deploy(template)
    (variant,) = sagemaker.describe_endpoint(EndpointName="ranker")["ProductionVariants"]
    return {name: variant[name] for name in ("CurrentInstanceCount", "CurrentWeight")}


def test_an_update_retains_what_it_is_asked_to(account: Account) -> None:
    found = _scaled_out_then_updated(account)
    assert found == {"CurrentInstanceCount": 2, "CurrentWeight": 0.5}
    account = account.another()
    found = _scaled_out_then_updated(account, RetainAllVariantProperties=True)
    assert found == {"CurrentInstanceCount": 5, "CurrentWeight": 9}

    account = account.another()
    excluded = [{"VariantPropertyType": "DesiredWeight"}]
    found = _scaled_out_then_updated(
        account, RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=excluded
    )
    assert found == {"CurrentInstanceCount": 5, "CurrentWeight": 0.5}
