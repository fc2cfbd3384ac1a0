"""A page of another origin, in a real Chromium, against a local AWS that runs: nothing is done.

The pages send what a page can send: what deploys, one request after another, and what reads.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from servable_local.aws import ACCOUNT, LocalAws
from servable_local.aws.local_aws import REGION
from servable_local.aws.server import Server
from tests.chromium import chromium
from tests.servable_handler.raw_server import answering
from tests.servable_local.aws.inventory import inventory

REBOUND = "evil.example"

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

# Each sends what deploys a model by hand. `report` is called with what the page could learn.
_SCRIPT = """
const done = arguments[arguments.length - 1], target = %(target)s, scope = %(scope)s;
const signed = service =>
  `AWS4-HMAC-SHA256 Credential=${scope}/${service}/aws4_request, SignedHeaders=host, ` +
  `Signature=${"0".repeat(64)}`;
const calls = [
  ["PUT", "/page-bucket", "s3", ""],
  ["PUT", "/page-bucket/model.tar.gz", "s3", "archive"],
  ["POST", "/", "iam", "Action=CreateRole&Version=2010-05-08&RoleName=page" +
    "&AssumeRolePolicyDocument=%%7B%%7D"],
  ["POST", "/", "sagemaker", '{"ModelName":"page","ExecutionRoleArn":"arn:aws:iam::1:role/page"}'],
  ["POST", "/", "sagemaker", '{"EndpointName":"page","EndpointConfigName":"page"}'],
  ["POST", "/servable/fault", "servable", "{}"],
  ["POST", "/servable/clock", "servable", '{"seconds":3600}'],
  ["POST", "/moto-api/reset", "s3", ""],
  ["GET", "/", "s3", undefined],
];
const query = service => "?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" +
  encodeURIComponent(`${scope}/${service}/aws4_request`) +
  "&X-Amz-Date=20261122T093000Z&X-Amz-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Signature=" +
  "0".repeat(64);
const wait = (promise, ms) => Promise.race([
  promise, new Promise((_, no) => setTimeout(() => no("late"), ms))]);
(async () => {
  const learnt = [];
  const learn = async (what, promise) => {
    try { learnt.push([what, await wait(promise, 5000)]); } catch (error) { /* nothing */ }
  };
  const read = answer => answer.type === "opaque" ? Promise.reject() : answer.text();
  for (const [method, path, service, body] of calls) {
    const plain = method === "GET" ? "GET" : "POST";
    const simple = {method: plain, mode: "no-cors", headers: {"Content-Type": "text/plain"}, body};
    await learn("no-cors", fetch(target + path, simple).then(read));
    await learn("no-cors, query", fetch(target + path + query(service), simple).then(read));
    const whole = {method, body, headers: {Authorization: signed(service)}};
    await learn("cors", fetch(target + path, whole).then(read));
    await learn("cors, unsigned", fetch(target + path, {method, body}).then(read));
    navigator.sendBeacon(target + path, body || "");
    if (plain === "POST") {
      const form = document.createElement("form"), frame = document.createElement("iframe");
      frame.name = "frame" + Math.random();
      Object.assign(form, {method: "POST", action: target + path, target: frame.name});
      form.enctype = "text/plain";
      const field = document.createElement("input");
      Object.assign(field, {name: (body || "a").split("=")[0], value: body || "b"});
      form.append(field);
      document.body.append(frame, form);
      const loaded = new Promise(yes => { frame.onload = yes; });
      form.submit();
      await learn("form", loaded.then(() => frame.contentDocument.body.innerText));
    }
    const image = new Image();
    const shown = new Promise((yes, no) => {
      image.onload = () => yes(`${image.width}`); image.onerror = no; });
    image.src = target + path + query(service);
    await learn("image", shown);
  }
  const socket = new WebSocket(target.replace("http", "ws") + "/");
  await learn("WebSocket", new Promise((yes, no) => {
    socket.onopen = () => yes("open"); socket.onerror = no; }));
  done(learnt);
})();
"""


@pytest.fixture(scope="module")
def page() -> Iterator[int]:
    """The port of a site of somebody else."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 22\r\n\r\n"
    with answering(head + b"<!doctype html><body/>") as site:
        yield site.port


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium for which evil.example is this computer."""
    others = "MAP * ~NOTFOUND,EXCLUDE 127.0.0.1,EXCLUDE localhost"
    options = ("--no-proxy-server", f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1,{others}")
    with chromium(*options, logs="browser") as driver:
        driver.set_script_timeout(150)
        yield driver


Answers = list[tuple[str, list[tuple[str, str]]]]


@pytest.fixture
def answers(server: Server) -> Iterator[Answers]:
    """(status, headers) of every answer of the server."""
    seen: Answers = []
    router = server._server.app

    def application(environ: dict[str, Any], start: Any) -> Any:
        def noted(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            seen.append((status, headers))
            return start(status, headers, *more)

        return router(environ, noted)

    server._server.app = application
    yield seen
    server._server.app = router


def _state(aws: LocalAws) -> dict[str, Any]:
    """What there is, of every kind that the pages try to make."""
    sagemaker = aws.client("sagemaker")
    return {
        "inventory": inventory(aws),
        "buckets": [bucket["Name"] for bucket in aws.client("s3").list_buckets()["Buckets"]],
        "roles": [role["RoleName"] for role in aws.client("iam").list_roles()["Roles"]],
        "models": sagemaker.list_models()["Models"],
        "endpoints": sagemaker.list_endpoints()["Endpoints"],
        "clock": aws.now(),
    }


@pytest.fixture
def kept(embedded: LocalAws) -> dict[str, Any]:
    """Something that a page could destroy, and all the rest."""
    s3 = embedded.client("s3")
    if "kept" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="kept")
    return _state(embedded)


# The page's host, and the host that it attacks.
PLACES = {
    "a page of another port": ("localhost", "127.0.0.1"),
    "a page that names localhost": ("127.0.0.1", "localhost"),
    "a page whose name was made to point here": (REBOUND, REBOUND),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_page_gets_nothing_done_and_learns_nothing(
    browser: Any, page: int, embedded: LocalAws, kept: dict[str, Any], answers: Answers, place: str
) -> None:
    where, attacked = PLACES[place]
    target = f"http://{attacked}:{embedded.port}"
    browser.get(f"http://{where}:{page}/")
    given = {"target": target, "scope": f"{ACCOUNT}/20261122/{REGION}"}
    texts = {name: json.dumps(text) for name, text in given.items()}
    assert browser.execute_async_script(_SCRIPT % texts) == []
    assert {status for status, _ in answers} == {"403 Forbidden"}
    shown = [name for _, headers in answers for name, _ in headers]
    assert [name for name in shown if name.lower().startswith("access-control")] == []
    assert _state(embedded) == kept


def test_a_name_that_was_made_to_point_here_is_no_origin_of_ours(
    browser: Any, embedded: LocalAws, answers: Answers
) -> None:
    """Its page would then be of the same origin: without an Origin header, with a Host alone."""
    browser.get(f"http://{REBOUND}:{embedded.port}/")
    assert "not an address of this server" in browser.page_source
    fetch = "fetch('/', {headers: {Authorization: 'AWS4-HMAC-SHA256 x'}})"
    then = ".then(a => a.text()).then(done, String)"
    said = browser.execute_async_script(f"const done = arguments[0]; {fetch}{then}")
    assert "not an address of this server" in said
    assert {status for status, _ in answers} == {"403 Forbidden"}
