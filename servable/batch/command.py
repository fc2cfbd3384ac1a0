"""`servable batch ENV [NAME]`: run a table through the model, as a transform job or locally."""

import datetime
import json
import re
import secrets
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from infra.catalog.limits import find_maximum
from infra.parameters.batch.job import TRIALS, BatchJob, find_batch_job
from infra.parameters.environment import build_stack_name
from infra.parameters.finding import suggest_name
from infra.parameters.loading import ValidFile
from model_packaging.beside import create_private_folder
from model_packaging.refusal import PackagingError
from servable.batch.objects import (
    LOCAL_CONTAINER,
    MOST_COUNTED_BYTES,
    BatchError,
    TransformObjects,
    count_file,
    count_records,
    list_files,
)
from servable.batch.result import (
    AWS,
    LOCAL_AWS,
    RUNS,
    BatchEstimate,
    BatchResult,
    estimate_batch,
    find_measured_rate,
    save_rate,
)
from servable.batch.watch import TransformWatch, UnknownJobError
from servable.console.signals import enable_ctrl_c
from servable.project.account import Account, AwsError, fetch_or_none, open_account
from servable.project.completion import ENVIRONMENT
from servable.project.environments import Project, format_stage_command, list_errors, pass_project

CANNOT_BE_TOLD = 3


@click.command()
@ENVIRONMENT
@click.argument("name", metavar="[NAME]", required=False)
@pass_project
@click.option(
    "--input",
    metavar="PLACE",
    help="Input table: s3://BUCKET/PREFIX/ or, with --local, a file or folder. Overrides the file.",
)
@click.option(
    "--output",
    metavar="PLACE",
    help="Output location: s3://BUCKET/PREFIX/, or a folder for local files. Overrides the file.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="ROWS",
    help="Run only the first ROWS rows, copied to a temporary prefix of the output.",
)
@click.option("--attach", metavar="JOB", help="Follow a running job until it ends.")
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate time and cost from measured rates without running the job.",
)
@click.option(
    "--local",
    is_flag=True,
    help="Run on this computer: a file or folder as --input in the local container, otherwise in "
    "the local AWS (`servable local up`).",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def batch(project: Project, environment: str, name: str | None, **values: Any) -> int:
    """Run a table through ENV's model: a transform job with the settings of [batch.NAME].

    Ctrl-C leaves the job running; --attach follows it again. Exits with 1 if the job failed, or rows
    have no answer, and with 3 if the outcome, or the estimate, is unknown.
    """
    loaded = project.load_valid(environment)
    job = _find_job(loaded, name)
    again = shlex.join(["servable", "batch", environment, job.name])
    run = BatchCommand(loaded=loaded, job=job, again=again, **values)
    run.check_options()
    if problems := list_errors(loaded):
        raise click.ClickException("\n".join(problems))
    enable_ctrl_c()
    code = 2
    try:
        if run.estimate:
            return run.print_estimate()
        return run.run_in_container() if run.is_of_files else run.run_in_aws()
    except (BatchError, PackagingError) as error:
        problem = str(error)
    except UnknownJobError as error:
        problem, code = f"outcome unknown: {error}", CANNOT_BE_TOLD
    except AwsError as error:
        problem = f"AWS rejected the call: {error}; check the credentials"
    click.echo(f"servable batch: {problem}", err=True)
    return code


def _find_job(loaded: ValidFile, name: str | None) -> BatchJob:
    """Return the batch that the command line names. Raises click.UsageError."""
    batches = loaded.environment.batch
    if not batches:
        raise click.UsageError(f"{loaded.file} has no [batch.NAME]; docs/batch.md shows one")
    known = ", ".join(batches)
    if name is None and len(batches) > 1:
        raise click.UsageError(f"{loaded.name} has several batches; pass one of {known}")
    name = name or next(iter(batches))
    if name not in batches:
        problem = f"{loaded.file} has no [batch.{name}]; allowed: {known}"
        raise click.UsageError(f"{problem}; {suggest_name(name, batches)}")
    job = find_batch_job(loaded.environment, name)
    if job is None:
        check = f"`servable check {loaded.name}` shows the problem"
        raise click.ClickException(f"{loaded.file}: {check}")
    return job


@dataclass(frozen=True, kw_only=True)
class BatchCommand:
    """One call of the command `servable batch`, with its parsed options."""

    loaded: ValidFile
    job: BatchJob
    again: str
    """The command without options."""
    input: str | None = None
    output: str | None = None
    limit: int | None = None
    attach: str | None = None
    estimate: bool = False
    local: bool = False
    as_json: bool = False

    @property
    def is_of_files(self) -> bool:
        """Return whether the input is a file or folder on this computer."""
        return self.local and self.input is not None and "://" not in self.input

    def check_options(self) -> None:
        """Raise click.UsageError for options that can't be combined."""
        places = [place for place in (self.input, self.output) if place is not None]
        if self.attach and (places or self.limit or self.estimate):
            problem = "--attach follows a job that is already running"
            raise click.UsageError(f"{problem}; remove the other options")
        if self.is_of_files:
            if not Path(self.input or "").exists():
                raise click.UsageError(f"--input {self.input}: no such file or folder")
            if not self.estimate and (self.output is None or "://" in self.output):
                raise click.UsageError("--input is a local file or folder; give --output FOLDER")
            return
        given, output = self.input or self.job.batch.input, self.output or self.job.batch.output
        if places and f"{output.rstrip('/')}/".startswith(given):
            problem = f"{output}: the output is inside the input {given}"
            raise click.UsageError(f"{problem}; use a different --input or --output")
        for place in places:
            if not re.fullmatch(r"s3://[^/]+/.*", place):
                remedy = "write s3://BUCKET/PREFIX/, or add --local for a file on this computer"
                raise click.UsageError(f"{place}: {remedy}")

    def run_in_container(self) -> int:
        """Run files of this computer in the local container, and return the exit code."""
        # The container is not installed where jobs alone are started.
        from servable.batch.local_run import LocalBatch
        from servable.project.provided import LaunchError
        from servable.serve.serve import prepare_batch

        output = Path(self.output or "", TRIALS if self.limit is not None else "")
        files = list_files(Path(self.input or ""), output)
        log = create_private_folder(self.loaded.root / RUNS) / "container.log"
        request = self.job.build_request(job_name=self._create_job_name(), model_name="local")
        served = prepare_batch(self.loaded, self.job)
        try:
            result = LocalBatch(served, request, log).run(files, self.limit)
        except LaunchError as error:
            reason = served.explain_failure(str(error))
            raise BatchError(f"the container didn't start: {reason}") from None
        return self._print_result(result)

    def run_in_aws(self) -> int:
        """Start or find a job, follow it, and return the exit code."""
        account = open_account(self.loaded.environment, local=self.local)
        account.check_credentials()
        name = self.attach or self._create_job_name()
        local = " --local" if self.local else ""
        comes_back = f"`{self.again}{local} --attach {name}` resumes following it"
        request, started = None, self.attach is not None
        try:
            if not started:
                request = self._build_request(account, name)
                # The job may start even if its response is lost.
                started = True
            watch = TransformWatch(account, name, comes_back, request=request)
            watch.follow()
            result = watch.fetch_result(self.loaded.environment)
        except KeyboardInterrupt:
            stop = f"aws sagemaker stop-transform-job --transform-job-name {name}"
            goes_on = f"{name} continues; {comes_back}, `{stop}` stops it"
            click.echo(goes_on if started else f"interrupted before {name} started", err=True)
            return 130
        watch.remove_trial()
        return self._print_result(result)

    def _build_request(self, account: Account, name: str) -> dict[str, Any]:
        """Return the request that starts the job, and print its name, by which you can follow it."""
        batch, model = self.job.batch, self._find_model(account)
        places = {"input_uri": self.input, "output_uri": self.output}
        request = self.job.build_request(job_name=name, model_name=model, **places)
        table = TransformObjects(account.client("s3"), request)
        output = request["TransformOutput"]["S3OutputPath"]
        for place, own in ((self.input or batch.input, batch.input), (output, batch.output)):
            if not place.startswith(own):
                click.echo(f"note: the role of {self.job.name} can access only {own}", err=True)
        if self.limit is not None:
            trial = f"{output.rstrip('/')}/{TRIALS}/{name}"
            count = table.copy_first_records(self.limit, f"{trial}/in/", batch.output_kms_key)
            click.echo(f"a copy of the first {count:,} rows is in {trial}/in/", err=True)
            request["TransformInput"]["DataSource"]["S3DataSource"]["S3Uri"] = f"{trial}/in/"
            output = request["TransformOutput"]["S3OutputPath"] = f"{trial}/out/"
        click.echo(f"{name} writes to {output}; Ctrl-C leaves it running", err=True)
        return request

    def _create_job_name(self) -> str:
        """Return a new job name, with random characters in case two jobs start at once."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        stem = re.sub(r"[^a-zA-Z0-9]+", "-", f"{self.loaded.name}-{self.job.name}").strip("-")
        end = f"-{now}-{secrets.token_hex(2)}"
        return stem[: find_maximum("TransformJobName") - len(end)].rstrip("-") + end

    def _find_model(self, account: Account) -> str:
        """Return the name of the batch's model in the deployed stack. Raises `BatchError`."""
        stack = build_stack_name(self.loaded.name, self.loaded.environment, "endpoint")
        described = fetch_or_none(account.client("cloudformation").describe_stacks, StackName=stack)
        outputs = described["Stacks"][0].get("Outputs", []) if described else []
        for output in outputs:
            if output["OutputKey"] == f"{self.job.output_prefix}Model":
                return str(output["OutputValue"]).rpartition("/")[2]
        problem = f"has no batch {self.job.name}" if described else "is not deployed"
        deploy = format_stage_command("deploy", self.loaded.name)
        raise BatchError(f"the stack {stack} {problem}; `{deploy}` deploys it")

    def _print_result(self, result: BatchResult) -> int:
        """Print the result, and return the exit code."""
        save_rate(self.loaded.root, self._rate_name, self.job, result)
        self._print(result)
        if result.interrupted:
            click.echo("interrupted; run the same command again to recreate every result", err=True)
            return 130
        return int(not result.is_complete)

    def _print(self, told: BatchResult | BatchEstimate) -> None:
        lines = [json.dumps(told.as_object())] if self.as_json else told.format_lines()
        click.echo("\n".join(lines))

    @property
    def _rate_name(self) -> str:
        return f"{self.loaded.name}/{self.job.name}"

    def print_estimate(self) -> int:
        """Print the estimated time and cost; return 0, or 3 if one of them is unknown."""
        environment, rows = self.loaded.environment, None
        where_to = {"input_uri": self.input, "output_uri": self.output}
        request = self.job.build_request(job_name="estimate", model_name="estimate", **where_to)
        if self.is_of_files:
            files, where = list_files(Path(self.input or ""), Path("/dev/null")), LOCAL_CONTAINER
            sizes = [file.input.stat().st_size for file in files]
            rows = [count_file(file.input, request, count_records) for file in files]
        else:
            account = open_account(environment, local=self.local)
            where = LOCAL_AWS if account.has_custom_endpoint else AWS
            objects = TransformObjects(account.client("s3"), request)
            sizes = [item.size for item in objects.inputs]
            if objects.size <= MOST_COUNTED_BYTES:
                rows = [objects.count_input_records(item) for item in objects.inputs]
        if rows is not None and self.limit is not None:
            rows = [min(sum(rows), self.limit)]
        rate = find_measured_rate(self.loaded.root, self._rate_name, environment, self.job, where)
        told = estimate_batch(environment, self.job, rate, rows, sizes=sizes, in_aws=where == AWS)
        self._print(told)
        return CANNOT_BE_TOLD if told.missing else 0
