"""Which values of a resource decide that CloudFormation replaces it: all of them, computed and not listed."""

import hashlib
import json

import aws_cdk as cdk


def replacement_fingerprint(resource: cdk.CfnResource, *named: str) -> str:
    """Changes whenever a resource that can only be replaced is, as 64 hex digits.

    SHA-256 over the properties as the template will have them, without tags, which are updated in
    place. `named`: fingerprints of resources that the properties only name (a model's name is an
    attribute in the template, the same one before and after the model's replacement).
    """
    properties = cdk.Stack.of(resource).resolve(resource._cfn_properties)
    properties.pop("tags", None)
    decides = json.dumps([properties, *named], sort_keys=True)
    return hashlib.sha256(decides.encode()).hexdigest()
