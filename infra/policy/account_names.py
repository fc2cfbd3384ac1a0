"""Names of what is not ours in an account: the CDK's bootstrap, and the role that scales.

https://docs.aws.amazon.com/autoscaling/application/userguide/services-that-can-integrate-sagemaker.html
(2026-11-28); bootstrap-template.yaml of aws-cdk 2.1148.1 (2026-11-22)
"""

BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version"
"""The parameter of Systems Manager."""
BOOTSTRAP_BUCKET = "cdk-hnb659fds-assets-{account}-{region}"
SCALING_SERVICE = "sagemaker.application-autoscaling.amazonaws.com"
SCALING_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
LINKED_ROLE = f"{SCALING_SERVICE}/{SCALING_ROLE}"
"""CloudFormation has it made where the account has none yet."""
