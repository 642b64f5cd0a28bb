"""Who may use the service, and what every answer says to a browser."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import httpx
import pytest

from p3iv.serving.protection import HEADERS, POLICY
from serving.conftest import TOKEN, OpenClient
from soak.raw_http import RawAnswer, exchange, request
from soak.service_process import ServiceProcess

EVIL_HOSTS = [
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil.example:80",
    "[",
    "0x7f.1",
    "a b",
]
KINDS = ["page", "unchanged", "static", "json", "jpeg", "file", "part", "events", "deleted", "openapi", "metrics"]
BAD_KINDS = [
    "no route",
    "no method",
    "not json",
    "bad field",
    "no type",
    "bad range",
    "no id",
    "host",
    "origin",
    "form",
]


def answers(client: httpx.Client, video: str) -> dict[str, httpx.Response]:
    """An answer of every kind."""
    place, moment = f"/v1/videos/{video}", {"video": video, "t": 1}
    pair = {"start": moment, "goal": moment}
    upload = client.put("/v1/videos", content=client.get(f"{place}/file").content).json()["id"]
    return {
        "page": client.get("/"),
        "unchanged": client.get("/", headers={"If-None-Match": client.get("/").headers["etag"]}),
        "static": client.get("/static/style.css"),
        "json": client.get("/v1/info"),
        "jpeg": client.get(f"{place}/frame?t=1"),
        "file": client.get(f"{place}/file"),
        "part": client.get(f"{place}/file", headers={"Range": "bytes=0-9"}),
        "events": client.post("/v1/plan", json=pair, headers={"Accept": "text/event-stream"}),
        "deleted": client.delete(f"/v1/videos/{upload}"),
        "openapi": client.get("/openapi.json"),
        "metrics": client.get("/metrics"),
        "no route": client.get("/admin"),
        "no method": client.post("/v1/info"),
        "not json": client.post("/v1/plan", content=b"{", headers={"Content-Type": "application/json"}),
        "bad field": client.post("/v1/plan", json=pair | {"number": "many"}),
        "no type": client.post("/v1/plan", content=b"{}"),
        "bad range": client.get(f"{place}/file", headers={"Range": "bytes=999999999-"}),
        "no id": client.get(f"/v1/videos/{'0' * 64}/file"),
        "host": client.get("/v1/info", headers={"Host": "evil.example"}),
        "origin": client.post("/v1/plan", json=pair, headers={"Origin": "http://evil.example"}),
        "form": client.put("/v1/videos", content=b"x", headers={"Content-Type": "multipart/form-data"}),
    }


@pytest.fixture(scope="module")
def of_every_kind(service: ServiceProcess) -> dict[str, httpx.Response]:
    with httpx.Client(base_url=service.url, timeout=60) as client:
        return answers(client, client.get("/v1/info").json()["example"]["video"])


@pytest.mark.parametrize("kind", KINDS + BAD_KINDS)
def test_every_answer_has_the_headers(of_every_kind: dict[str, httpx.Response], kind: str) -> None:
    answer = of_every_kind[kind]
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "cache-control" in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control-") or name == "server"]


@pytest.mark.parametrize("kind", BAD_KINDS)
def test_every_error_has_the_same_form(of_every_kind: dict[str, httpx.Response], kind: str) -> None:
    answer = of_every_kind[kind]
    statuses = [404, 405, 400, 400, 415, 416, 404, 403, 403, 415]
    assert answer.status_code == statuses[BAD_KINDS.index(kind)]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert RawAnswer(answer.status_code, {}, answer.content).error["message"].endswith(".")


def test_the_policy_allows_no_inline_script_and_no_other_origin() -> None:
    rules = dict(rule.strip().split(" ", 1) for rule in POLICY.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert not re.search("unsafe|http|\\*", POLICY)


def test_the_page_keeps_to_its_policy() -> None:
    """No code in HTML, no text that becomes HTML, nothing from elsewhere."""
    page = {path.name: path.read_text("utf-8") for path in Path(str(files("p3iv.serving") / "page")).iterdir()}
    html = page["index.html"]
    assert re.findall(r"<script(?![^>]*\ssrc=)[^>]*>", html) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", html) == []
    for name, text in page.items():
        assert (
            re.findall(r"(?:inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text) == []
        ), name
        elsewhere = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w/]*", re.sub(r"(?m)^\s*(//|\*|/\*).*$", "", text)))
        assert elsewhere <= {"http://www.w3.org/2000/svg"}, name


@pytest.mark.parametrize("host", EVIL_HOSTS)
def test_other_host_names_are_refused(service: ServiceProcess, host: str) -> None:
    """A page whose name somebody else points to this machine must not read from it."""
    for target in ("/", "/healthz", "/v1/info", "/static/main.js", "/openapi.json", "/nowhere"):
        (answer,) = exchange(service.port, request("GET", target, host=host))
        assert answer.status in (400, 403)
        assert answer.error["code"] in ("bad_request", "forbidden")
    (named,) = exchange(service.port, request("GET", "/v1/info", host="evil.example"))
    assert named.status == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "[::1]:8000", "192.168.1.5:80"]
)
def test_this_machine_and_addresses_are_allowed(service: ServiceProcess, host: str) -> None:
    (answer,) = exchange(service.port, request("GET", "/v1/info", host=host))
    assert answer.status == 200


def test_a_name_is_allowed_by_an_option(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.1.1", public_token)
    assert client.get("/v1/info", headers={"Host": "kitchen.example"}).status_code == 200
    assert client.get("/v1/info", headers={"Host": "KITCHEN.example:80"}).status_code == 200
    assert client.get("/v1/info", headers={"Host": "other.example"}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "", "http://[", "file://", "http://localhost", "http://127.0.0.1:1", "x" * 99],
)
def test_pages_of_other_origins_change_nothing(client: httpx.Client, origin: str) -> None:
    for method, path in [
        *(("PUT", "/v1/videos"), ("PUT", "/v1/pictures"), ("POST", "/v1/plan"), ("POST", "/v1/probability")),
        *(("POST", "/v1/session"), ("DELETE", "/v1/videos/" + "0" * 64), ("POST", "/nowhere"), ("PATCH", "/")),
    ]:
        answer = client.request(method, path, content=b"{}", headers={"Origin": origin})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_the_own_page_and_programs_may_change_something(client: httpx.Client, service: ServiceProcess) -> None:
    for headers in ({"Origin": service.url}, {}):
        answer = client.delete("/v1/videos/" + "0" * 64, headers=headers)
        assert answer.status_code == 404


def test_nothing_is_shared_with_other_origins(client: httpx.Client) -> None:
    asked = {"Origin": "http://evil.example", "Access-Control-Request-Method": "PUT"}
    for answer in (client.options("/v1/videos", headers=asked), client.get("/v1/info", headers=asked)):
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert answer.status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])  # other ports of a host are the same site
def test_a_page_of_another_origin_cannot_make_the_service_work(client: httpx.Client, site: str) -> None:
    headers = {"Sec-Fetch-Site": site}  # what browsers send with an image of another page
    assert client.get("/v1/videos", headers=headers).status_code == 403
    assert client.get("/", headers=headers).status_code == 200  # a link to the page
    assert client.get("/v1/videos", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_a_method_that_a_route_does_not_take(client: httpx.Client) -> None:
    for path, methods in [("/v1/videos", "GET, PUT"), ("/v1/videos/x", "DELETE, GET"), ("/v1/plan", "POST")]:
        answer = client.patch(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)


def test_a_public_service_prints_its_token_once(public: ServiceProcess, public_token: str) -> None:
    assert re.fullmatch(r"[\w-]{32,}", public_token)
    assert public.printed.count(public_token) == 1


def test_a_public_service_needs_its_token(public_client: OpenClient) -> None:
    client, nobody = public_client("127.0.2.1"), "0" * 64
    for method, path in [
        *(
            ("GET", "/v1/info"),
            ("GET", "/v1/videos"),
            ("GET", "/openapi.json"),
            ("GET", "/metrics"),
            ("GET", "/nowhere"),
        ),
        *(("PUT", "/v1/videos"), ("PUT", "/v1/pictures"), ("POST", "/v1/plan"), ("POST", "/v1/probability")),
        *(("GET", f"/v1/videos/{nobody}{rest}") for rest in ("", "/file", "/frame?t=1", "/strip")),
        *(("DELETE", f"/v1/videos/{nobody}"), ("GET", f"/v1/pictures/{nobody}"), ("GET", "/v1/steps/0/picture")),
        *(("GET", "//v1/info"), ("GET", "/V1/info"), ("GET", "/static/../v1/info"), ("GET", "/v1/info/")),
    ]:
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized"), path
    for path in ("/", "/static/main.js", "/static/style.css", "/healthz", "/readyz"):
        assert client.get(path).status_code == 200


def test_the_token_in_a_header(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.2.2")
    for given in (f"Bearer {public_token}", f"bearer  {public_token}"):
        assert client.get("/v1/info", headers={"Authorization": given}).status_code == 200
    wrong = ["", "Bearer", "Bearer x", f"Basic {public_token}", public_token, f"Bearer {public_token}x"]
    for given in wrong:
        answer = client.get("/v1/info", headers={"Authorization": given})
        assert answer.status_code == 401
    assert client.get("/v1/info", params={"token": public_token}).status_code == 401  # addresses are written down


def test_the_token_in_a_cookie(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.2.3")
    opened = client.post("/v1/session", json={"token": public_token})
    assert (opened.status_code, opened.content) == (204, b"")
    flags = {part.strip().lower() for part in opened.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= flags
    assert not any(flag.startswith("domain") for flag in flags)
    assert client.get("/v1/info").json()["needs_token"] is True  # the client keeps the cookie
    client.cookies.clear()
    assert client.get("/v1/info").status_code == 401
    refused = client.post("/v1/session", json={"token": public_token[:-1]})
    assert refused.status_code == 401
    assert "set-cookie" not in refused.headers


def test_a_client_that_guesses_is_refused_for_a_while(public_client: OpenClient, public_token: str) -> None:
    client, other = public_client("127.0.2.4"), public_client("127.0.2.5", public_token)
    statuses = [
        client.get("/v1/info", headers={"Authorization": f"Bearer guess{number}"}).status_code for number in range(12)
    ]
    assert statuses == [401] * 10 + [429] * 2
    answers = [
        client.get("/v1/info", headers={"Authorization": f"Bearer {public_token}"}),  # a guess, for all we know
        client.get("/v1/info", headers={"Cookie": f"p3iv_token={public_token}"}),
        client.post("/v1/session", json={"token": public_token}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_requests")
        assert 0 < int(answer.headers["retry-after"]) <= 60
    assert client.get("/").status_code == 200
    assert other.get("/v1/info").status_code == 200  # of another address


def test_a_page_with_an_old_cookie_does_not_guess(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.2.6")
    for _ in range(30):
        assert client.get("/v1/info", headers={"Cookie": "p3iv_token=of-yesterday"}).status_code == 401
    assert client.post("/v1/session", json={"token": public_token}).status_code == 204


def test_a_given_token_is_needed_on_this_machine_too(strict: ServiceProcess) -> None:
    assert strict.address.endswith(f"/#token={TOKEN}")
    with httpx.Client(base_url=strict.url) as client:
        assert client.get("/v1/info").status_code == 401
        assert client.get("/v1/info", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/", headers={"Cookie": f"p3iv_token={TOKEN}"}).status_code == 200


def test_tokens_are_not_in_the_log(public: ServiceProcess, public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.2.7", public_token)
    client.get(f"/v1/info?token={public_token}")
    client.get(f"/v1/videos/{public_token}")
    client.post("/v1/session", json={"token": public_token})
    exchange(public.port, f"GARBAGE {public_token}\r\n\r\n".encode())
    assert public.printed.count(public_token) == 1
