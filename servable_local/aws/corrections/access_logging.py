"""A bucket may log to another before that one's policy lets the log in.

Upstream (moto 5.2.5): PutBucketLogging wants the target's policy, or its access control
list, to be there already. AWS looks at the policy when it delivers; CloudFormation makes
it last, because its condition names the bucket that logs.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html
"""

from moto.s3.models import FakeBucket


def install() -> None:
    """Idempotent."""
    setattr(  # noqa: B010 - mypy forbids the plain form
        FakeBucket, "_log_permissions_enabled_policy", staticmethod(_permitted)
    )


def _permitted(target_bucket: FakeBucket, target_prefix: str | None) -> bool:
    return True
