"""The local AWS answers as AWS answered for CloudFormation and CloudWatch, but for what the page names.

Statuses, codes, messages and fields are facts that were recorded from AWS by the tests of LocalStack
(github.com/localstack/localstack, commit 8b9a79f05846); `source` names the file below tests/aws/services, the
test and the key of each, `observed` the day of it. Requests and what is set up before them are our own words.

In a row `$ACCOUNT` is the caller's account, `${0.StackId}` a member of the first setup's answer, `$NOW` the
local AWS's clock, which a setup of the service `clock` advances, and `$START` and `$END` an hour of it;
`region` is where a request is sent. An answer's `<…>` is any text, `date` and the like any value, `-1` in
a path the last of a list.
"""

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from moto.awslambda.models import lambda_backends
from moto.iam.models import ManagedPolicy, iam_backends
from moto.s3.models import s3_backends

from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.local_aws import REGION
from servable_local.aws.loopback import load_botocore_session, load_service_model
from servable_local.aws.server import Server
from tests.servable_local.aws.local_account import TRUST, Account

pytestmark = pytest.mark.long
FILE = Path(__file__).with_name("aws_answers.jsonl")
Row = dict[str, Any]
_ANY = frozenset({"date", "datetime", "timestamp"})
_PLACE = re.compile(r"\$\{(\d+)\.([\w.]+)\}")
_WAITED_FOR = frozenset({"CreateStack", "UpdateStack", "DeleteStack", "ExecuteChangeSet"})


def rows() -> list[Row]:
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def difference(expected: Any, actual: Any, where: str = "") -> str | None:
    """The first thing that is not as expected, or None. Members that nobody expects are no difference."""
    if isinstance(expected, dict | list) and isinstance(actual, str):
        actual = json.loads(actual)
    if isinstance(expected, dict) and isinstance(actual, dict):
        inner = [(f"{where}.{key}", value, actual.get(key)) for key, value in expected.items()]
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        inner = [(f"{where}.{number}", *pair) for number, pair in pairs]
    else:
        return None if _alike(expected, actual) else f"{where}: {actual!r}, on AWS {expected!r}"
    found = (difference(wanted, given, at) for at, wanted, given in inner)
    return next(filter(None, found), None)


def _alike(expected: Any, actual: Any) -> bool:
    if isinstance(expected, str) and actual is not None:
        pattern = ".+".join(re.escape(part) for part in re.split(r"<[^<>]*>", expected))
        return expected in _ANY or re.fullmatch(pattern, str(actual), re.DOTALL) is not None
    return bool(expected == actual)


def _at(answer: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(answer, str):
            answer = json.loads(answer)
        if isinstance(answer, list):
            answer = answer[int(step)] if -len(answer) <= int(step) < len(answer) else None
        else:
            answer = (answer or {}).get(step)
    return answer


def _archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("i.py", "def h(event, context): ...")
    return content.getvalue()


def client(account: Account, service: str, region: str = REGION) -> Any:
    """One that sends what it is given: what is malformed too."""
    config = Config(
        parameter_validation=False, inject_host_prefix=False, retries={"total_max_attempts": 1},
        s3={"addressing_style": "path"}, proxies={},
    )  # fmt: skip
    key = {"access_key_id": account.number, "secret_access_key": account.aws.secret_access_key}
    keys = {f"aws_{name}": value for name, value in key.items()}
    return load_botocore_session().create_client(
        service, region_name=region, endpoint_url=account.aws.url, config=config, **keys
    )


@dataclass
class Asked:
    """An account that a row is asked in. `clients` are shared: making one takes longer than a row."""

    account: Account
    clients: dict[str, Any]

    def __post_init__(self) -> None:
        now = self.account.aws.now()
        end = now.replace(minute=0, second=0, microsecond=0)
        self._words: dict[str, Any] = {"$NOW": now, "$START": end - timedelta(hours=1), "$END": end}
        self._words["$ZIP"] = _archive()
        self._answers: list[Any] = []

    def differences(self, row: Row) -> Iterator[str]:
        for service, operation, request in row["setup"]:
            if service == "clock":
                self.account.aws.advance(**request)
                continue
            try:
                self._answers.append(self._ask(service, operation, request))
            except ClientError as refused:
                yield f"{operation}: {refused}"
                return
            if operation in _WAITED_FOR:
                formation = CloudFormationApi.regions.provide_service(self.account.number, REGION)
                for stack in formation.list_stacks():
                    self.account.settled(stack.id)
        expected, asked = row["answer"], (row["service"], row["operation"], row["request"])
        error: Mapping[str, Any] = {}
        try:
            answer = self._ask(*asked, row.get("region", REGION))
        except ClientError as refused:
            answer, error = refused.response, refused.response["Error"]
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        if status != expected.get("status", status):
            yield f"status {status} {error}, on AWS {expected['status']}"
        for name in ("code", "message"):
            if expected.get(name) is not None:
                wanted = self._filled(expected[name])
                if found := difference(wanted, error.get(name.title()), name):
                    yield found
        for path, value in expected.get("fields", {}).items():
            if found := difference(self._filled(value), _at(answer, path), path):
                yield found
        for path in expected.get("absent", []):
            if _at(answer, path) is not None:
                yield f"{path} is there, not on AWS"

    def _ask(
        self, service: str, operation: str, request: Mapping[str, Any], region: str = REGION
    ) -> Any:
        key = f"{service} {region}"
        if key not in self.clients:
            self.clients[key] = client(self.account, service, region)
        asked, secret = self.clients[key], self.account.aws.secret_access_key
        asked._request_signer._credentials = Credentials(self.account.number, secret)
        return asked._make_api_call(operation, self._filled(request))

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            filled = {key: self._filled(inner) for key, inner in value.items()}
            if isinstance(template := filled.get("TemplateBody"), dict):
                filled["TemplateBody"] = json.dumps(template)
            return filled
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        if not isinstance(value, str) or value in self._words:
            return self._words.get(value, value) if isinstance(value, str) else value
        text = value.replace("$ACCOUNT", self.account.number)
        whole = _PLACE.fullmatch(text)
        if whole:  # as it is: it may be bytes
            return _at(self._answers[int(whole[1])], whole[2])
        return _PLACE.sub(lambda place: str(_at(self._answers[int(place[1])], place[2])), text)


PAGE = "docs/local-aws.md"
ALIKE = [row for row in rows() if "differs" not in row]
DIFFERENT = [row for row in rows() if "differs" in row]


@pytest.fixture(scope="module")
def clients() -> dict[str, Any]:
    return {}


def name(row: Row) -> str:
    return f"{row['service']}-{row['operation']}-{row['source'].rpartition('/')[2]}"


@pytest.mark.parametrize("row", ALIKE, ids=name)
def test_the_answer_is_aws_s(row: Row, account: Account, clients: dict[str, Any]) -> None:
    assert list(Asked(account, clients).differences(row)) == []


@pytest.mark.parametrize("row", DIFFERENT, ids=name)
def test_a_stated_difference_is_one(row: Row, account: Account, clients: dict[str, Any]) -> None:
    assert list(Asked(account, clients).differences(row)) != []


def test_what_is_answered_otherwise_is_rare_and_on_the_page() -> None:
    page = " ".join(Path(PAGE).read_text("utf-8").split())
    assert [row["differs"] for row in DIFFERENT if row["differs"] not in page] == []
    # A bound that only goes up with the same rows.
    assert len(ALIKE) / len(rows()) > 0.99


SERVICES = "application-autoscaling cloudformation cloudwatch ecr events iam kms lambda logs s3"
SERVICES += " sagemaker sagemaker-runtime sns sqs ssm sts"


def least(shape: Any, depth: int = 0) -> Any:
    """The least that a shape allows: required members, with something in them."""
    match shape.type_name:
        case "structure":
            wanted = shape.required_members if depth < 4 else ()
            return {name: least(shape.members[name], depth + 1) for name in wanted}
        case "list":
            return [least(shape.member, depth + 1)]
        case "map":
            return {"a": "b"}
        case "string":
            return shape.enum[0] if shape.enum else "absent"
        case "boolean":
            return False
        case "timestamp" | "integer" | "long" | "float" | "double":
            return 60
    return b"x"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("service", SERVICES.split())
def test_what_is_not_done_says_so_with_its_name(account: Account, service: str) -> None:
    asked, model = client(account, service), load_service_model(service)
    unnamed = {}
    for operation in model.operation_names:
        shape = model.operation_model(operation).input_shape
        try:
            answer = asked._make_api_call(operation, least(shape) if shape else {})
            with contextlib.suppress(KeyError, AttributeError):
                answer["Body"].close()
        except ClientError as refused:
            answer, error = refused.response, refused.response["Error"]
            message = f"{error.get('Code')}: {error.get('Message', '')}"
            named = message.startswith("NotImplemented: the local AWS failed on")
            if answer["ResponseMetadata"]["HTTPStatusCode"] >= 500 and not named:
                unnamed[operation] = message[:200]
    assert unnamed == {}


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("sagemaker", "CreateTrainingJob"),
        ("sagemaker", "CreateProcessingJob"),
        ("sagemaker", "CreateNotebookInstance"),
        ("sagemaker-runtime", "InvokeEndpointWithResponseStream"),
        ("ssm", "SendCommand"),
        ("ssm", "DeregisterPatchBaselineForPatchGroup"),
        ("lambda", "Invoke"),
        ("ecr", "StartImageScan"),
    ],
)
def test_what_would_have_no_effect_is_not_implemented(
    account: Account, server: Server, service: str, operation: str
) -> None:
    shape = load_service_model(service).operation_model(operation).input_shape
    with pytest.raises(ClientError) as refused:
        client(account, service)._make_api_call(operation, least(shape))
    answer = refused.value.response
    found = answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]
    assert found == (501, "NotImplemented")


@pytest.mark.usefixtures("server")
def test_what_is_not_there_is_refused_with_the_code_of_botocore_s_model(account: Account) -> None:
    with pytest.raises(ClientError) as refused:
        client(account, "ssm")._make_api_call("GetParameterHistory", {"Name": "gone"})
    assert refused.value.response["Error"]["Code"] == "ParameterNotFound"


NAME = "absent"  # of `least`
LOOKS = ("Get", "List", "Head", "Describe", "Simulate", "Select", "Generate")
FUNCTION = {"FunctionName": NAME, "Role": "arn:aws:iam::$ACCOUNT:role/absent", "Handler": "i.h",
            "Runtime": "python3.12", "Code": {"ZipFile": "$ZIP"}}  # fmt: skip
ROLE = ["iam", "CreateRole", {"RoleName": NAME, "AssumeRolePolicyDocument": TRUST}]
SETUPS: dict[str, list[Any]] = {
    "iam": [
        ROLE,
        ["iam", "CreateUser", {"UserName": NAME}],
        ["iam", "CreateGroup", {"GroupName": NAME}],
        ["iam", "CreateInstanceProfile", {"InstanceProfileName": NAME}],
    ],
    "s3": [
        ["s3", "CreateBucket", {"Bucket": NAME}],
        ["s3", "PutObject", {"Bucket": NAME, "Key": NAME, "Body": "x"}],
    ],
    "lambda": [ROLE, ["lambda", "CreateFunction", FUNCTION]],
}
# On AWS too these succeed where there is nothing to do: the input names nothing new, or a bucket of one's own
# in us-east-1.
NOTHING_TO_DO = (
    *("CreateBucket", "Deactivate", "Delete", "Detach", "Disable", "PutBucketLogging"),
    *("PutBucketNotification", "Remove", "Tag", "Untag", "UpdateFunctionConfiguration"),
    *("UpdateGroup", "UpdateRole", "UpdateUser"),
)


@pytest.mark.usefixtures("server")
def test_deleting_a_part_of_a_bucket_that_is_not_kept_leaves_the_bucket(account: Account) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="metrics-of-it")
    with pytest.raises(ClientError, match="DeleteBucketMetricsConfiguration"):
        s3.delete_bucket_metrics_configuration(Bucket="metrics-of-it", Id="all")
    assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == ["metrics-of-it"]


def kept(service: str, account: str) -> str:
    """All that a service has of the account, as one text."""
    backends: Any = {"iam": iam_backends, "s3": s3_backends, "lambda": lambda_backends}
    region = "us-east-1" if service == "lambda" else "aws"
    return _text(backends[service][account][region], set())


def _text(value: Any, seen: set[int]) -> str:
    if isinstance(value, str | bytes | int | float | bool | datetime | None):
        return repr(value)
    if id(value) in seen:
        return "seen"
    seen.add(id(value))
    if isinstance(value, Mapping):
        return str([(str(key), _text(item, seen)) for key, item in value.items()])
    if isinstance(value, list | tuple | set | frozenset):
        return str([_text(item, seen) for item in value])
    # AWS's own policies are 1,300, and whoever attaches one changes more than it.
    if isinstance(value, ManagedPolicy) and value.arn.startswith("arn:aws:iam::aws:"):
        return str(value.arn)
    return _text(vars(value), seen) if hasattr(value, "__dict__") else type(value).__name__


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("service", sorted(SETUPS))
def test_what_succeeds_has_changed_something(account: Account, service: str) -> None:
    asked, model = client(account, service), load_service_model(service)
    begun = Asked(account, {})
    for which, operation, request in SETUPS[service]:
        begun._ask(which, operation, request)
    unchanged = []
    for operation in model.operation_names:
        if operation.startswith((*LOOKS, *NOTHING_TO_DO)):
            continue
        shape = model.operation_model(operation).input_shape
        before = kept(service, account.number)
        try:
            answer = asked._make_api_call(operation, least(shape) if shape else {})
        except ClientError:
            continue
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        if status < 300 and kept(service, account.number) == before:
            unchanged.append(operation)
    assert " ".join(unchanged) == ""
