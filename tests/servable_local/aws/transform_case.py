"""An account with a model, a bucket, and transform jobs over it; a stand-in is the container."""

from typing import Any

from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.local_account import TRUST, Account

LINES: dict[str, Any] = {
    "TransformInput": {"ContentType": "text/csv", "SplitType": "Line"},
    "TransformOutput": {"Accept": "text/csv", "AssembleWith": "Line"},
}


class TransformCase:
    """The model `echo` answers what it was sent."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.sagemaker, self.s3 = account.client("sagemaker"), account.client("s3")
        self.archive = account.number.encode()
        self.bucket = account.put_archive(self.archive).split("/")[2]
        roles = account.client("iam")
        made = roles.create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
        self._role = made["Role"]["Arn"]
        self.model("echo", ECHO="1")

    def model(self, name: str, **variables: str) -> None:
        data = {"ModelDataUrl": f"s3://{self.bucket}/model.tar.gz", "Environment": variables}
        self.sagemaker.create_model(
            ModelName=name, ExecutionRoleArn=self._role, PrimaryContainer={"Image": "image", **data}
        )

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def create(self, **request: Any) -> None:
        """A job over `in/` to `out/`: by the whole file, where `request` says nothing else."""
        source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{self.bucket}/in/"}
        took = {"DataSource": {"S3DataSource": source}} | request.pop("TransformInput", {})
        gave = {"S3OutputPath": f"s3://{self.bucket}/out"} | request.pop("TransformOutput", {})
        self.sagemaker.create_transform_job(
            **{"TransformJobName": "job", "ModelName": "echo"} | request,
            TransformInput=took,
            TransformOutput=gave,
            TransformResources={"InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        )

    def run(self, **request: Any) -> dict[str, Any]:
        """DescribeTransformJob's answer when it has come to rest."""
        self.create(**request)
        return self.rested(request.get("TransformJobName", "job"))

    def rested(self, name: str = "job") -> dict[str, Any]:
        going = ("InProgress", "Stopping")
        until(lambda: self.describe(name)["TransformJobStatus"] not in going)
        return self.describe(name)

    def describe(self, name: str = "job") -> dict[str, Any]:
        shown: dict[str, Any] = self.sagemaker.describe_transform_job(TransformJobName=name)
        return shown

    def results(self) -> dict[str, bytes]:
        """{key below out/: content} of what the jobs have written."""
        listed = self.s3.list_objects_v2(Bucket=self.bucket, Prefix="out/").get("Contents", [])
        get, keys = self.s3.get_object, [item["Key"] for item in listed]
        read = {key: get(Bucket=self.bucket, Key=key)["Body"].read() for key in keys}
        return {key.removeprefix("out/"): body for key, body in read.items()}

    def containers(self) -> list[StandIn]:
        """Those that were started here, also the ones that have ended."""
        return [one for one in self.account.launcher.started if one.archive == self.archive]

    def bodies(self) -> list[bytes]:
        return [body for one in self.containers() for body in one.bodies]

    def log(self) -> str:
        logs = self.account.client("logs")
        group = {"logGroupName": "/aws/sagemaker/TransformJobs"}
        found = logs.filter_log_events(**group)["events"]
        return "\n".join(event["message"] for event in found)
