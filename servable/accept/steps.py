"""The steps of an acceptance run: what each proves, which assumption it tests, and the code that does it."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
from botocore.exceptions import BotoCoreError, ClientError

from infra.policy.acceptance_policy import TAG
from infra.policy.account_names import BOOTSTRAP_VERSION
from servable.accept.project import RANKER, endpoint_name, environment_name
from servable.accept.run import AcceptRun, CannotTellError, DoesNotHoldError
from servable.aws_account import Account, unless_absent
from servable.verify.golden import REQUESTS
from servable_tensors import TensorError
from servable_tensors.codecs import CODECS

_JSON = "application/json"
# What AWS's pages do not state of the alarms of target tracking.
_ALARM_KEYS = (
    *("Threshold", "ComparisonOperator", "EvaluationPeriods", "DatapointsToAlarm", "Period"),
    *("Statistic", "TreatMissingData"),
)
# Small types have two.
_OTHER_WORKERS = {"variants.primary.container.gunicorn_workers": "3"}
_GOLDEN = RANKER / "golden" / "request-rows.json"
_ROWS = json.loads(_GOLDEN.read_text(encoding="utf-8"))["instances"]
_LINES = "".join(f"{json.dumps(row)}\n" for row in _ROWS).encode()
# Neither model nor version nor signature is named: the defaults answer.
_DEFAULTS = SimpleNamespace(model=None, version=None, signature=None)


@dataclass(frozen=True)
class AcceptStep:
    """One entry of the table. `run` returns if it holds, and raises what `AcceptRun` names if not."""

    name: str
    environment: str
    """The environment that it needs; "" for the account alone."""
    minutes: float
    """At most, of AWS's clock, the deployment of its environment not counted."""
    run: Callable[[AcceptRun], None]
    proves: str
    assumes: str = ""
    """What Servable takes for true and only an account can show."""


# --- the account


def is_bootstrapped(account: Account) -> bool:
    return unless_absent(account.client("ssm").get_parameter, Name=BOOTSTRAP_VERSION) is not None


def bootstrap(run: AcceptRun) -> None:
    """Bootstrap the account if it is not; the stack gets the tag, and goes at the end."""
    there = is_bootstrapped(run.account)
    run.fact("was_there", there)
    if not there:
        tag = f"{TAG}={run.run_id}"
        where = f"aws://{run.account.number}/{run.account.region}"
        run.cdk("bootstrap", where, "--tags", tag)
    version = run.client("ssm").get_parameter(Name=BOOTSTRAP_VERSION)
    run.fact("version", int(version["Parameter"]["Value"]))


def doctor(run: AcceptRun) -> None:
    looks = run.servable(
        "doctor",
        environment_name(next(iter(run.usd_per_hour), "serverless")),
        "--json",
        codes=(0, 1, 3),
    )
    states = {look["name"]: look["state"] for look in looks}
    for name, state in states.items():
        run.fact(f"check.{name}", state)
    if problems := [
        f"{look['name']}: {look['said']}" for look in looks if look["state"] == "problem"
    ]:
        raise DoesNotHoldError("; ".join(problems))


# --- the ranker on an instance


def deploy(run: AcceptRun) -> None:
    run.require("main")


def verify(run: AcceptRun) -> None:
    _verified(run, "main")


def _verified(run: AcceptRun, kind: str, *, may_sleep: bool = False) -> None:
    """`may_sleep`: it is asked for no answer where no instance or copy runs."""
    keys = [f"--set={key}={value}" for key, value in run.overrides.items() if kind == "main"]
    report = run.servable("verify", environment_name(kind), *keys, "--json", codes=(0, 1, 3))
    run.fact("verify.verdict", report["verdict"])
    run.fact("verify.answers", report["answers"])
    run.fact("verify.notes", report["notes"])
    if found := report["differences"]:
        listed = "; ".join(
            f"{one['kind']}: {one['resource']} {one['key']}".strip() for one in found
        )
        raise DoesNotHoldError(f"verify finds {listed}")
    if report["verdict"] != "holds" and not may_sleep:
        raise CannotTellError(f"verify compared no answers: {'; '.join(report['notes'])}")


def invoke(run: AcceptRun) -> None:
    body = str(_GOLDEN)
    answer = run.servable("invoke", environment_name("main"), "--body", body, "--json")
    run.fact("seconds", answer["seconds"])
    _as_golden(run, json.loads(answer["answer"]))


def _as_golden(run: AcceptRun, answer: Any) -> None:
    golden = json.loads((RANKER / "golden" / "answer-rows.json").read_text(encoding="utf-8"))
    got, wanted = (np.array(each["predictions"], float).ravel() for each in (answer, golden))
    run.fact("predictions", [float(f"{number:.4g}") for number in got])
    if got.shape != wanted.shape or not np.allclose(got, wanted, rtol=1e-4, atol=1e-4):
        raise DoesNotHoldError(
            f"the answer is {got.tolist()}, and TensorFlow's own {wanted.tolist()}"
        )


def _arrays() -> dict[str, Any]:
    """The golden request's rows as the ranker's two inputs."""
    types = {"feat_ids": "int64", "feat_vals": "float32"}
    return {name: np.array([row[name] for row in _ROWS], kind) for name, kind in types.items()}


def client(run: AcceptRun) -> None:
    inputs = _arrays()
    with run.endpoint("main") as endpoint:
        outputs = endpoint.predict(inputs)
        in_parts = endpoint.predict(inputs, split=1)
    (name,) = outputs
    run.fact("variant", outputs.variant)
    _as_golden(run, {"predictions": outputs[name].tolist()})
    if not np.allclose(outputs[name], in_parts[name], rtol=1e-5):
        raise DoesNotHoldError("rows that were sent one by one have other answers")


def bodies(run: AcceptRun) -> None:
    """Every content type that can hold the ranker's two inputs, and every one as the answer's."""
    runtime, name, arrays = run.client("sagemaker-runtime"), endpoint_name("main"), _arrays()
    sent = {"application/jsonlines": _LINES, "application/json": _GOLDEN.read_bytes()}
    for kind, codec in CODECS.items():
        with suppress(TensorError):  # one array, or text that the client does not write
            sent.setdefault(kind, codec.write_request(arrays, _DEFAULTS))
    wrong = []
    for kind, accept in [*((kind, _JSON) for kind in sent), *((_JSON, kind) for kind in CODECS)]:
        try:
            answer = runtime.invoke_endpoint(
                EndpointName=name, ContentType=kind, Accept=accept, Body=sent[kind]
            )
            size, status = len(answer["Body"].read()), f"200 {answer['ContentType']}"
        except ClientError as error:
            response = error.response
            size, status = 0, str(response.get("OriginalStatusCode", response["Error"]["Code"]))
        run.fact(f"{kind} -> {accept}", status)
        if not size:
            wrong.append(f"{kind} -> {accept}: {status}")
    if wrong:
        raise DoesNotHoldError("; ".join(wrong))


def load(run: AcceptRun) -> None:
    words = ["--target=deployed", "--users=1,2", "--step-seconds=4", "--least-seconds=2"]
    words += ["--warm-up-seconds=1", f"--body={_GOLDEN}", "--json"]
    # A small instance may be at its limit with two users: that is a fact, and no fault.
    report = run.servable("load", environment_name("main"), *words, codes=(0, 1, 3))
    for step in report["steps"]:
        facts = {key: step[key] for key in ("failed", "p50_ms", "p99_ms")}
        run.fact(f"users.{step['users']:g}", {"rps": step["throughput_rps"]["value"], **facts})
    run.fact("verdict", report["verdict"])
    answered = any(step["throughput_rps"]["value"] for step in report["steps"])
    if report["ended"] == "failing" or not answered:
        raise DoesNotHoldError("requests of the load test failed, or none was answered")


def scaling(run: AcceptRun) -> None:
    """The two alarms of target tracking, and one scale-out that they cause."""
    if not run.choice.scaled:
        raise CannotTellError(
            f"the quota of {run.choice.instance_type} does not allow a second fleet of two"
        )
    name = endpoint_name("main")
    prefix = {"AlarmNamePrefix": f"TargetTracking-endpoint/{name}/"}
    alarms = list(run.account.pages("cloudwatch", "describe_alarms", "MetricAlarms", **prefix))
    for alarm in alarms:
        kind = "high" if "-AlarmHigh-" in alarm["AlarmName"] else "low"
        run.fact(f"alarm.{kind}", {key: alarm[key] for key in _ALARM_KEYS if key in alarm})
    if len(alarms) != 2:
        raise DoesNotHoldError(f"target tracking made {len(alarms)} alarms, expected 2")
    body, asked = _GOLDEN.read_bytes(), run.account.now().replace(tzinfo=None)
    runtime, sagemaker = run.client("sagemaker-runtime"), run.client("sagemaker")

    def scaled() -> bool | None:
        """Above the target of 24 requests a minute; a loaded minute needs more of a fast clock."""
        for _ in range(20):
            runtime.invoke_endpoint(EndpointName=name, ContentType=_JSON, Body=body)["Body"].read()
        (variant,) = sagemaker.describe_endpoint(EndpointName=name)["ProductionVariants"]
        return True if variant["CurrentInstanceCount"] > 1 else None

    with run.timed("scale_out_minutes"):
        run.wait(scaled, minutes=20, what="a second instance")
    of_variant = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{name}/variant/primary",
    }
    activities = run.client("application-autoscaling").describe_scaling_activities(**of_variant)
    for activity in activities["ScalingActivities"]:
        at, until = activity["StartTime"].replace(tzinfo=None), activity.get("EndTime")
        run.event(at, activity["Description"], activity["StatusCode"])
        if until and at >= asked:
            run.fact("decided_minutes", _minutes_between(asked, at))
            run.fact("start_minutes", _minutes_between(at, until.replace(tzinfo=None)))
    metrics = run.client("cloudwatch").get_metric_statistics(
        Namespace="/aws/sagemaker/Endpoints",
        MetricName="CPUUtilization",
        Dimensions=[
            {"Name": "EndpointName", "Value": name},
            {"Name": "VariantName", "Value": "primary"},
        ],
        StartTime=run.account.now() - timedelta(minutes=30),
        EndTime=run.account.now() + timedelta(minutes=1),
        Period=60,
        Statistics=["SampleCount"],
    )["Datapoints"]
    run.fact("cpu_samples_a_minute", sorted({point["SampleCount"] for point in metrics}))


def _minutes_between(first: datetime, second: datetime) -> float:
    return round((second - first).total_seconds() / 60, 2)


def update(run: AcceptRun) -> None:
    """Another number of workers: a new model and configuration, the traffic shifted and baked."""
    run.overrides |= _OTHER_WORKERS
    with _caller(run):
        _updated("main", run)
    published = run.account.pages(
        "cloudwatch", "list_metrics", "Metrics", Namespace="AWS/SageMaker"
    )
    name = endpoint_name("main")
    dimensions = {
        f"{metric['MetricName']}: {', '.join(sorted(one['Name'] for one in metric['Dimensions']))}"
        for metric in published
        if {"Name": "EndpointName", "Value": name} in metric["Dimensions"]
    }
    run.fact("metrics", sorted(dimensions))
    _verified(run, "main")


def _broken(version: str) -> Callable[[AcceptRun], None]:
    """A step: the update to this code must be taken back, while somebody calls."""

    def taken_back(run: AcceptRun) -> None:
        run.require("main")
        before = _configuration("main", run)
        run.overrides["models.ranker.code"] = f"code/{version}"
        try:
            with _caller(run):
                run.update("main")
        except DoesNotHoldError as error:
            run.fact("said", str(error))
        finally:
            del run.overrides["models.ranker.code"]
        status = run.stack_status("main")
        same = before == _configuration("main", run)
        run.fact("stack", status)
        run.fact("configuration_is_the_old_one", same)
        if status == "UPDATE_COMPLETE":
            run.update("main")  # the next steps need an endpoint that answers
        if status != "UPDATE_ROLLBACK_COMPLETE" or not same:
            which = "old" if same else "new"
            raise DoesNotHoldError(f"the stack is {status}, the configuration the {which} one")

    return taken_back


def _updated(kind: str, run: AcceptRun, overrides: Mapping[str, str] | None = None) -> None:
    """Deploy it with other keys. Raises `DoesNotHoldError` where that makes no other configuration."""
    before = _configuration(kind, run)
    run.update(kind, overrides)
    if _configuration(kind, run) == before:
        raise DoesNotHoldError(
            "the update is through, and the endpoint configuration is the old one"
        )


def _configuration(kind: str, run: AcceptRun) -> str:
    described = run.client("sagemaker").describe_endpoint(EndpointName=endpoint_name(kind))
    return str(described["EndpointConfigName"])


@contextmanager
def _caller(run: AcceptRun) -> Iterator[None]:
    """Send a golden request six seconds after the other, of AWS's clock, and record how many failed."""
    done, statuses = threading.Event(), Counter[str]()
    runtime, body = run.client("sagemaker-runtime"), _GOLDEN.read_bytes()

    def send() -> None:
        while not done.wait(run.account.seconds_per_minute / 10):
            try:
                runtime.invoke_endpoint(
                    EndpointName=endpoint_name("main"), ContentType=_JSON, Body=body
                )["Body"].read()
                statuses["200"] += 1
            except ClientError as error:
                code = error.response["Error"]["Code"]
                statuses[str(error.response.get("OriginalStatusCode", code))] += 1
            except BotoCoreError as error:
                statuses[type(error).__name__] += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        run.fact("callers_got", dict(statuses))


# --- other kinds


def serverless(run: AcceptRun) -> None:
    run.require("serverless")
    _verified(run, "serverless")


def asynchronous(run: AcceptRun) -> None:
    """It goes to no instance, where the steps before have not let it, and a request brings one back."""
    run.require("asynchronous")
    _verified(run, "asynchronous", may_sleep=True)
    with run.timed("to_zero_minutes"):
        run.wait(
            lambda: _instances(run) == 0 or None, minutes=35, what="no instance without requests"
        )
    output = _described(run)["AsyncInferenceConfig"]["OutputConfig"]["S3OutputPath"]
    bucket, key = output.split("/")[2], f"{REQUESTS}/accept.json"
    body = _GOLDEN.read_bytes()
    run.client("s3").put_object(Bucket=bucket, Key=key, Body=body, ContentType=_JSON)
    sent = run.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=endpoint_name("asynchronous"),
        ContentType=_JSON,
        Accept=_JSON,
        InputLocation=f"s3://{bucket}/{key}",
    )
    out_bucket, _, out_key = sent["OutputLocation"].removeprefix("s3://").partition("/")

    def answered() -> Any:
        return unless_absent(run.client("s3").get_object, Bucket=out_bucket, Key=out_key)

    with run.timed("from_zero_minutes"):
        answer = run.wait(answered, minutes=30, what="an answer from no instance")
    _as_golden(run, json.loads(answer["Body"].read()))


def _described(run: AcceptRun) -> Any:
    name = endpoint_name("asynchronous")
    return run.client("sagemaker").describe_endpoint(EndpointName=name)


def _instances(run: AcceptRun) -> int:
    return int(_described(run)["ProductionVariants"][0]["CurrentInstanceCount"])


def update_at_zero(run: AcceptRun) -> None:
    """The bounds of scaling are 0 meanwhile: waiting for its alarms would take a quarter of an hour."""
    run.require("asynchronous")
    run.client("application-autoscaling").register_scalable_target(
        ServiceNamespace="sagemaker",
        ResourceId=f"endpoint/{endpoint_name('asynchronous')}/variant/primary",
        ScalableDimension="sagemaker:variant:DesiredInstanceCount",
        MinCapacity=0,
        MaxCapacity=0,
    )
    run.wait(lambda: _instances(run) == 0 or None, minutes=15, what="no instance by bounds of 0")
    _updated("asynchronous", run, _OTHER_WORKERS)
    run.fact("instances_after", _instances(run))


def batch(run: AcceptRun) -> None:
    run.require("serverless")
    s3, bucket = run.client("s3"), run.make_bucket()
    s3.put_object(Bucket=bucket, Key="rows/a.jsonl", Body=_LINES)
    words = ("batch", environment_name("serverless"), "rows", "--json")
    with run.timed("minutes"):
        report = run.servable(*words, codes=(0, 1, 3))
    run.fact("rows", {key: report.get(key) for key in ("rows_in", "rows_out", "status")})
    if not report["holds"]:
        raise DoesNotHoldError(f"the job is {report['status']}: {report['reason']}")


def components(run: AcceptRun) -> None:
    """It answers, falls asleep, and a call wakes it."""
    run.require("components")
    body, name = f"--body={_GOLDEN}", environment_name("components")
    run.servable("invoke", name, body)  # it may sleep already
    _verified(run, "components", may_sleep=True)
    sagemaker, component = run.client("sagemaker"), f"{endpoint_name('components')}-primary"

    def asleep() -> bool | None:
        described = sagemaker.describe_inference_component(InferenceComponentName=component)
        return True if described["RuntimeConfig"]["CurrentCopyCount"] == 0 else None

    with run.timed("to_sleep_minutes"):
        run.wait(asleep, minutes=40, what="no copy without requests")
    with run.timed("wake_minutes"):
        answer = run.servable("invoke", name, body, "--json")
    _as_golden(run, json.loads(answer["answer"]))


def variants(run: AcceptRun) -> None:
    """Each variant by its name, and the weights; the ARN of a name with capital letters."""
    run.require("variants")
    _verified(run, "variants")
    name = endpoint_name("variants")
    described = run.client("sagemaker").describe_endpoint(EndpointName=name)
    run.fact("arn", described["EndpointArn"].rpartition(":")[2])
    run.fact(
        "weights",
        {one["VariantName"]: one["CurrentWeight"] for one in described["ProductionVariants"]},
    )
    body = _GOLDEN.read_bytes()
    for variant in ("primary", "other"):
        answer = run.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=name, ContentType=_JSON, Body=body, TargetVariant=variant
        )
        run.fact(f"asked.{variant}", answer["InvokedProductionVariant"])
        if answer["InvokedProductionVariant"] != variant:
            raise DoesNotHoldError(
                f"{variant} was asked, and {answer['InvokedProductionVariant']} answered"
            )


def conformance(run: AcceptRun) -> None:
    run.require("conformance")
    address = run.client("sagemaker-runtime").meta.endpoint_url
    url = f"{address}/endpoints/{endpoint_name('conformance')}/invocations"
    report = run.servable("conformance", "--url", url, "--json", codes=(0, 1, 3))
    run.fact("verdict", report["verdict"])
    for group in report["groups"]:
        run.fact(f"group.{group['group']}", group)
    if report["verdict"] == "does not hold":
        raise DoesNotHoldError(f"{len(report['differences'])} answers are not the image's")
    if report["verdict"] != "holds":
        raise CannotTellError("an endpoint cannot be asked everything that was observed")


STEPS = (
    AcceptStep("bootstrap", "", 4, bootstrap,
        "the account is bootstrapped for the CDK; if not, it is now",
        "stacks need version 6 (requiresBootstrapStackVersion)"),
    AcceptStep("doctor", "", 1, doctor,
        "credentials, region, quotas and names are as a deployment needs them",
        "quotas are named 'TYPE for endpoint usage' in service-quotas"),
    AcceptStep("deploy", "main", 15, deploy,
        "the ranker is deployed with canary, golden requests, capture and alarms",
        "an instance starts within 180 s (decision 0011)"),
    AcceptStep("verify", "main", 1, verify,
        "what runs is what was deployed, and answers as TensorFlow does"),
    AcceptStep("invoke", "main", 1, invoke,
        "the command line sends a request"),
    AcceptStep("client", "main", 1, client,
        "servable_client, whole and in parts"),
    AcceptStep("bodies", "main", 1, bodies,
        "every content type, in and out",
        "SageMaker hands Content-Type and Accept on unchanged"),
    AcceptStep("load", "main", 1, load,
        "a load test of one and two users reaches the endpoint",
        "one process signs and sends as fast as one instance answers"),
    AcceptStep("update", "main", 20, update,
        "a good update shifts traffic, bakes and goes live",
        "error metrics have the dimension EndpointConfigName during a bake"),
    AcceptStep("answers-500", "main", 20, _broken("answers-500"),
        "an update that answers 500 is rolled back",
        "the alarms on 5xx and golden requests see it within the bake"),
    AcceptStep("answers-400", "main", 20, _broken("answers-400"),
        "an update that answers 400 is rolled back",
        "the alarms on 4xx and golden requests see it within the bake"),
    AcceptStep("never-starts", "main", 30, _broken("never-starts"),
        "an update whose container never starts is rolled back",
        "SageMaker gives up after ContainerStartupHealthCheckTimeoutInSeconds"),
    AcceptStep("scaling", "main", 20, scaling,
        "target tracking's alarms, and one scale-out",
        "3 of 3 minutes above the target, 15 of 15 below 0.9 of it; SampleCount counts instances"),
    AcceptStep("serverless", "serverless", 3, serverless,
        "a serverless endpoint is deployed and answers",
        "MetricsConfig is accepted beside ServerlessConfig"),
    AcceptStep("batch", "batch", 15, batch,
        "a transform job answers each row of a table",
        "a job starts within 3 to 5 minutes"),
    AcceptStep("variants", "variants", 3, variants,
        "two variants answer by weight and by name",
        "the ARN of an endpoint is in lower case"),
    AcceptStep("conformance", "conformance", 5, conformance,
        "an endpoint without code answers as the image was observed to",
        "1,121 recorded answers (docs/conformance.md)"),
    AcceptStep("asynchronous", "asynchronous", 60, asynchronous,
        "an asynchronous endpoint goes to no instance, and comes back for a request",
        "HasBacklogWithoutCapacity brings it back from zero"),
    AcceptStep("update-at-zero", "asynchronous", 25, update_at_zero,
        "an asynchronous endpoint is updated while no instance runs",
        "UpdateEndpoint is accepted at zero"),
    AcceptStep("components", "components", 60, components,
        "an endpoint that sleeps is woken by a call",
        "TensorFlow Serving runs as an inference component, from zero too"),
)  # fmt: skip
DESTROY = "destroy"
NAMES = (*(step.name for step in STEPS), DESTROY)
