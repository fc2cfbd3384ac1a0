"""Pages in a real browser get nothing done by the containers that run on the same computer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from selenium import webdriver

from servable_local.container.launch import EndpointProcess, launch
from tests.chromium import chromium
from tests.conformance.archives import MODELS
from tests.conformance.asking import listening
from tests.servable_handler.raw_server import answering
from tests.servable_local.container.conftest import Pack

pytestmark = pytest.mark.long

EVIL = "evil.example"
MODEL = json.dumps({"model_name": "m", "url": str(MODELS / "numbers")})
ROWS = '{"instances": [[1.0, 2.0]]}'
# Every call leaves a line: what a page cannot read may still have run.
COUNTING = b"""
import os

def handler(data, context):
    with open(os.environ["CALLS"], "a") as calls:
        calls.write("called\\n")
    return '{"predictions": []}', "application/json"
"""

# Everything by which a page sends requests; what it could read of an answer comes back.
ATTACK = """
const [urls, body, done] = arguments;
const read = [];
const patience = promise => Promise.race([promise, new Promise(end => setTimeout(end, 3000))]);
const keep = async promise => {
  try { const text = await (await promise).text(); if (text) read.push(text); } catch (e) {}
};
function element(name, url) {
  return new Promise(end => {
    const made = document.createElement(name);
    made.onload = made.onerror = end;
    made.src = url;
    document.body.append(made);
  });
}
function form(url, kind) {
  return new Promise(end => {
    const frame = document.createElement("iframe");
    frame.name = "f" + Math.random();
    document.body.append(frame);
    const sent = document.createElement("form");
    Object.assign(sent, {method: "POST", action: url, enctype: kind, target: frame.name});
    const field = document.createElement("input");
    [field.name, field.value] = [body, ""];
    sent.append(field);
    document.body.append(sent);
    frame.onload = end;
    sent.submit();
  });
}
function socket(url) {
  return new Promise(end => {
    const opened = new WebSocket(url.replace("http", "ws"));
    opened.onopen = () => { read.push("open"); end(); };
    opened.onerror = end;
  });
}
(async () => {
  for (const url of urls) {
    const post = {method: "POST", body};
    const typed = {...post, headers: {"Content-Type": "application/json"}};
    await patience(Promise.all([
      keep(fetch(url, post)),
      keep(fetch(url, typed)),
      keep(fetch(url, {...post, mode: "no-cors"})),
      keep(fetch(url, {...post, mode: "no-cors", referrerPolicy: "no-referrer"})),
      keep(fetch(url, {...post, mode: "no-cors", keepalive: true})),
      keep(fetch(url, {method: "DELETE"})),
      keep(fetch(url)),
      new Promise(end => { navigator.sendBeacon(url, body); end(); }),
      form(url, "text/plain"), form(url, "application/x-www-form-urlencoded"),
      form(url, "multipart/form-data"),
      element("img", url), element("script", url), element("iframe", url),
      socket(url),
    ]));
  }
  done(read);
})();
"""

# What a page asks of its own site. It may read every answer.
READ = """
const [url, body, done] = arguments;
const asked = [{}, {method: "POST", body}, {method: "DELETE"}].map(
  options => fetch(url, options).then(answer => answer.text(), () => null));
Promise.all(asked).then(texts => done(texts.filter(text => text !== null)));
"""


@dataclass(frozen=True)
class Containers:
    """One with code that counts its calls, one in multi-model mode with nothing loaded."""

    coded: EndpointProcess
    several: EndpointProcess
    calls: Path

    def urls(self, name: str) -> list[str]:
        """What predicts, loads a model or unloads one, by this name of 127.0.0.1."""
        (_, grpc), (_, rest) = listening(self.coded.parts.model_servers[0])
        coded, several = (one.url.rpartition(":")[2] for one in (self.coded, self.several))
        return [
            f"http://{name}:{coded}/invocations",
            f"http://{name}:{rest}/v1/models/numbers:predict",
            f"http://{name}:{grpc}/tensorflow.serving.PredictionService/Predict",
            f"http://{name}:{several}/models",
            f"http://{name}:{several}/models/m",
        ]


@pytest.fixture(scope="module")
def containers(pack: Pack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    calls = tmp_path_factory.mktemp("calls") / "calls"
    calls.touch()
    archive = pack({"code/inference.py": COUNTING}, {"numbers": MODELS / "numbers"})
    with (
        launch(archive, {"CALLS": str(calls)}, ready_timeout_seconds=110.0) as coded,
        launch(None, {"SAGEMAKER_MULTI_MODEL": "true"}, ready_timeout_seconds=110.0) as several,
    ):
        yield Containers(coded, several, calls)


@pytest.fixture(scope="module")
def site() -> Iterator[int]:
    """The port of a web site on this computer: any path is an empty page."""
    page = b"<!doctype html><title>page</title><body></body>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page)
    with answering(head + page) as server:
        yield server.port


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium(f"--host-resolver-rules=MAP {EVIL} 127.0.0.1", logs="performance") as driver:
        driver.set_script_timeout(60)
        yield driver


@contextmanager
def answers(browser: webdriver.Chrome) -> Iterator[set[tuple[str, int]]]:
    """Method and status of all that the browser is answered in the block, readable or not."""
    browser.get_log("performance")  # type: ignore[no-untyped-call]
    found: set[tuple[str, int]] = set()
    yield found
    methods: dict[str, str] = {}
    for entry in browser.get_log("performance"):  # type: ignore[no-untyped-call]
        event: dict[str, Any] = json.loads(entry["message"])["message"]
        told = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            methods[told["requestId"]] = told["request"]["method"]
        elif event["method"] == "Network.responseReceived":
            found.add((methods.get(told["requestId"], "?"), int(told["response"]["status"])))


def _nothing_was_done(containers: Containers) -> bool:
    loaded = requests.get(f"{containers.several.url}/models", timeout=30).json()
    return containers.calls.read_text() == "" and loaded == {}


def test_the_count_counts(containers: Containers) -> None:
    answer = requests.post(f"{containers.coded.url}/invocations", ROWS, timeout=30)
    called = containers.calls.read_text()
    containers.calls.write_text("")
    assert (answer.json(), called) == ({"predictions": []}, "called\n")


@pytest.mark.parametrize("body", [ROWS, MODEL])
@pytest.mark.parametrize("page", ["127.0.0.1", "localhost", EVIL])
def test_a_page_of_another_origin_gets_nothing_done(
    page: str, body: str, containers: Containers, site: int, browser: webdriver.Chrome
) -> None:
    browser.get(f"http://{page}:{site}/")
    with answers(browser) as answered:
        read = browser.execute_async_script(ATTACK, containers.urls("127.0.0.1"), body)
    assert read == []
    assert _nothing_was_done(containers)
    # 403 says that the browser has sent it: nothing of this is the browser's own caution.
    assert {status for method, status in answered if method == "POST"} == {403}


def test_a_page_whose_name_was_made_to_mean_this_computer_gets_nothing_done(
    containers: Containers, browser: webdriver.Chrome
) -> None:
    """DNS rebinding: to the browser the container is the page's own site, so all can be read."""
    # Not gRPC: what speaks HTTP/2 without TLS is no site to a browser.
    for url in [one for one in containers.urls(EVIL) if "PredictionService" not in one]:
        browser.get(url)
        with answers(browser) as answered:
            read = browser.execute_async_script(READ, url, ROWS)
        assert {status for _, status in answered} == {403}
        refused = [json.loads(text)["error"].split(" ")[0] for text in read]
        assert refused == ["Host", "Origin", "Origin"]
    assert _nothing_was_done(containers)
