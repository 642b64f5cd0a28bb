"""`p3iv serve --engine ray`: the service in several replicas answers as one, and outlives one of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from commands import RunP3iv
from p3iv.planner import Planner
from p3iv.shipped import shipped_clips
from processes import becomes_true, is_running
from serving.conftest import PLANNER, TOKEN
from soak.raw_http import exchange
from soak.service_process import ServiceProcess, running_service, wait_for

pytest.importorskip("ray.serve")

CLIP = shipped_clips(PLANNER)[0]
PAIRS = [(CLIP.start_s + shift, CLIP.goal_s - shift) for shift in (0, 1.5, 3)]  # seconds of start and goal
PATIENCE_S = 120  # for what takes some seconds on an idle machine
OPTIONS = ("--engine", "ray", "--token", TOKEN, "--limit", "jobs=1")


@pytest.fixture(scope="module")
def replicated() -> Iterator[ServiceProcess]:
    """Two replicas on this machine."""
    with running_service(*OPTIONS, "--replicas", "2", "--limit", "upload_mib=8", "--limit", "idle_s=5") as started:
        yield started


@pytest.fixture(scope="module")
def expected(planner: Planner) -> list[dict[str, Any]]:
    """The plans between the pairs of moments."""
    pairs = ((f"{CLIP.path}@{start}", f"{CLIP.path}@{goal}") for start, goal in PAIRS)
    return [json.loads(json.dumps(planner.plan(start, goal).to_dict())) for start, goal in pairs]


def open_client(service: ServiceProcess) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)


def events(service: ServiceProcess, name: str) -> list[dict[str, Any]]:
    return [event for event in service.log() if event["event"] == name]


def wait_for_both(service: ServiceProcess, route: str, since: int = 0) -> None:
    """Wait until both replicas have written down that they answered requests to a route."""

    def count() -> int:
        return len({each["replica"] for each in events(service, "request")[since:] if each["route"] == route})

    wait_for(lambda: count() == 2, f"answers of both replicas to {route}")


def question(client: httpx.Client, pair: tuple[float, float]) -> dict[str, Any]:
    video = client.get("/v1/info").json()["example"]["video"]
    return {"start": {"video": video, "t": pair[0]}, "goal": {"video": video, "t": pair[1]}}


def ask(service: ServiceProcess, index: int) -> tuple[int, dict[str, Any]]:
    """The status and the answer for one of the pairs; 599 if there was none."""
    with open_client(service) as client:
        try:
            answer = client.post("/v1/plan", json=question(client, PAIRS[index % len(PAIRS)]))
        except (httpx.TransportError, KeyError):  # KeyError: the question for the video was not answered
            return 599, {}
        return answer.status_code, answer.json()


def has_plans(answer: dict[str, Any], expected: dict[str, Any]) -> bool:
    return {name: answer[name] for name in expected} == expected


def in_parts(content: bytes, size: int = 2**16) -> Iterable[bytes]:
    return (content[first : first + size] for first in range(0, len(content), size))


@pytest.mark.slow
def test_plans_are_those_of_the_planner_whoever_computes_them(
    replicated: ServiceProcess, expected: list[dict[str, Any]]
) -> None:
    numbers = range(24)  # new moments first, then known ones
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(partial(ask, replicated), numbers))
    assert {status for status, _ in answers} == {200}
    for number, (_, answer) in zip(numbers, answers, strict=True):
        assert has_plans(answer, expected[number % len(PAIRS)])
    wait_for_both(replicated, "/v1/plan")


@pytest.mark.slow
def test_events_arrive_one_by_one(replicated: ServiceProcess) -> None:
    with open_client(replicated) as client:
        asked = question(client, (CLIP.start_s + 0.7, CLIP.start_s + 9.3))  # not asked before
        with client.stream("POST", "/v1/plan", json=asked, headers={"Accept": "text/event-stream"}) as answer:
            parts = list(answer.iter_text())
    assert len(parts) > 2
    assert parts[0].startswith('event: progress\ndata: {"stage":"encoding"')
    assert "event: result" not in "".join(parts[:-1])
    assert parts[-1].startswith("event: result\n")


@pytest.mark.slow
def test_an_upload_is_found_by_all_replicas_and_read_in_parts(replicated: ServiceProcess) -> None:
    content = CLIP.path.read_bytes()
    with open_client(replicated) as client:
        sent = client.put("/v1/videos", params={"name": "mine.mp4"}, content=in_parts(content))
        assert sent.status_code == 201, sent.text
        route = f"/v1/videos/{sent.json()['id']}/file"
        found = [client.get(route, headers={"Range": "bytes=1000-1999"}) for _ in range(20)]
        assert {answer.status_code for answer in found} == {206}
        assert {answer.content for answer in found} == {content[1000:2000]}
        assert client.get(route).content == content
    wait_for_both(replicated, "/v1/videos/{video}/file")


@pytest.mark.slow
def test_a_body_over_the_limit_is_refused_whether_or_not_its_size_is_told(replicated: ServiceProcess) -> None:
    content = bytes(9 * 2**20)
    with open_client(replicated) as client:
        for body in (content, in_parts(content)):
            answer = client.put("/v1/videos", content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.slow
def test_who_asks_is_checked_behind_the_proxy(replicated: ServiceProcess) -> None:
    def status(method: str, route: str, **headers: str) -> int:
        answer = httpx.request(method, f"{replicated.url}/{route}", headers=headers)
        assert "content-security-policy" in answer.headers
        return answer.status_code

    token = f"Bearer {TOKEN}"
    assert status("GET", "v1/info") == 401
    assert status("GET", "v1/info", Authorization="Bearer wrong") == 401
    assert status("GET", "v1/info", Authorization=token) == 200
    [(name, value)] = httpx.post(f"{replicated.url}/v1/session", json={"token": TOKEN}).cookies.items()
    assert status("GET", "v1/info", Cookie=f"{name}={value}") == 200
    assert status("GET", "v1/info", Authorization=token, Host="rebound.example") == 403
    assert status("DELETE", "v1/videos/x", Authorization=token, Origin="http://other.example") == 403
    assert status("DELETE", "v1/videos/x", Authorization=token, Origin=replicated.url) == 404
    assert status("GET", "-/routes") == status("GET", "-/healthz") == status("GET", "%2d/routes") == 404
    assert status("GET", "v1/info", **{"Authorization": token, "X-Request-Timeout-Seconds": "0.00001"}) == 200


@pytest.mark.slow
def test_connections_have_the_limits_of_the_service(replicated: ServiceProcess) -> None:
    (answer,) = exchange(replicated.port, b"this is not HTTP\r\n\r\n")
    assert (answer.status, answer.error["code"]) == (400, "bad_request")
    with socket.create_connection(("127.0.0.1", replicated.port), PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert connection.recv(1) == b""  # after 5 seconds without more of it


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_only_ports_that_ask_for_the_token_of_ray_are_open_to_other_machines(replicated: ServiceProcess) -> None:
    grpc = pytest.importorskip("grpc")
    open_ports = {port for pid in replicated.pids() for port in public_ports(pid)}
    assert len(open_ports) <= 2  # of the two replicas
    for port in open_ports:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel, pytest.raises(grpc.RpcError) as refused:
            channel.unary_unary("/ray.serve.ASGIService/HandleRequest")(b"", timeout=10)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


@pytest.mark.slow
def test_a_replica_that_is_killed_comes_back_and_the_service_goes_on(
    replicated: ServiceProcess, expected: list[dict[str, Any]]
) -> None:
    with open_client(replicated) as client:
        upload = client.put("/v1/videos", content=CLIP.path.read_bytes()).json()["id"]
    started = events(replicated, "started")
    is_over, answers = Event(), []

    def load(number: int) -> None:
        while not is_over.is_set():
            answers.append((number, *ask(replicated, number)))

    with ThreadPoolExecutor(4) as threads:
        loads = [threads.submit(load, number) for number in range(4)]
        try:
            wait_for(lambda: len(answers) > 8, "answers", PATIENCE_S)
            os.kill(started[-1]["process"], signal.SIGKILL)
            killed = len(answers)
            wait_for(lambda: len(events(replicated, "started")) > len(started), "another replica", PATIENCE_S)
            wait_for(lambda: events(replicated, "replicas")[-1]["running"] == 2, "two replicas", PATIENCE_S)
        finally:
            is_over.set()
        for each in loads:
            each.result()
    assert all(status == 200 or status >= 500 for _, status, _ in answers)
    good = [(number, answer) for number, status, answer in answers[killed:] if status == 200]
    assert len(good) > 8
    assert all(has_plans(answer, expected[number % len(PAIRS)]) for number, answer in good)
    assert {ask(replicated, number)[0] for number in range(12)} == {200}
    since = len(events(replicated, "request"))
    with open_client(replicated) as client:
        found = [client.get(f"/v1/videos/{upload}") for _ in range(20)]
    assert {answer.status_code for answer in found} == {200}
    wait_for_both(replicated, "/v1/videos/{video}", since)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_after_the_running_requests_and_leaves_nothing(number: signal.Signals) -> None:
    with running_service(*OPTIONS) as service:  # whose end checks exit code, processes and temporary files
        with open_client(service) as client:
            assert client.put("/v1/videos", content=CLIP.path.read_bytes()).status_code == 201
        assert list(service.folder.glob("p3iv-uploads-*/*.video"))
        pids = service.pids()
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(ask, service, 0)
            wait_for(lambda: events(service, "request")[-1]["route"] == "/v1/info", "the question before the plan")
            for pid in pids if number == signal.SIGINT else pids[:1]:  # Ctrl-C reaches all processes
                os.kill(pid, number)
            assert running.result()[0] == 200
        assert becomes_true(lambda: not any(map(is_running, pids)), timeout_s=PATIENCE_S)
        assert events(service, "stopped")
        assert (service.folder / "stdout").read_text().count("\n") == 2  # Ray has printed nothing there


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a Ray cluster of this machine."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", 64 * "1")
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # short, for Ray's sockets
        words = ["ray", "start", "--head", "--block", "--port", str(port), "--num-cpus", "1", "--temp-dir", folder]
        options = ("--include-dashboard", "false", "--disable-usage-stats")
        bin_folder = Path(sys.executable).parent
        with subprocess.Popen([bin_folder / words[0], *words[1:], *options], stdout=subprocess.DEVNULL) as head:
            try:
                wait_for(lambda: is_open(port), "the cluster", PATIENCE_S)
                yield f"127.0.0.1:{port}"
            finally:
                head.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
def test_it_runs_on_a_cluster_that_has_no_other_service(cluster: str, tmp_path: Path, p3iv_process: RunP3iv) -> None:
    uploads = tmp_path / "uploads"
    where = ("--address", cluster, "--uploads", str(uploads))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = p3iv_process("serve", *OPTIONS, *where, "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 1
    assert "Ray Serve cannot listen there" in " ".join(refused.stderr.split())
    with running_service(*OPTIONS, *where, "--port", str(free_port())) as service:
        with open_client(service) as client:
            assert client.put("/v1/videos", content=in_parts(CLIP.path.read_bytes())).status_code == 201
        assert list(uploads.glob("*.video"))
        assert ask(service, 0)[0] == 200
        assert httpx.get(f"{service.url}/-/routes").status_code == 404  # so what stands before the proxy is there
        refused = p3iv_process("serve", *OPTIONS, *where)
        assert refused.returncode == 1
        assert "Ray Serve runs on this cluster already" in " ".join(refused.stderr.split())


@pytest.mark.slow
def test_a_planner_that_cannot_be_loaded_is_one_sentence(p3iv_process: RunP3iv, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = p3iv_process("serve", "empty", "--engine", "ray", "--port", "0")
    assert done.returncode == 1
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert lines[0] == "loading empty ..."
    assert " ".join(lines[1:]).startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "model.safetensors does not exist" in " ".join(lines)


BLOCKED = """
import sys
sys.modules[{module!r}] = None
from p3iv.cli.app import main
sys.argv = ["p3iv", "serve", "--engine", "ray", "--port", "0"]
main()
"""


@pytest.mark.parametrize(("module", "missing"), [("ray", "ray"), ("grpc", "Ray Serve")])
def test_what_is_not_installed_is_named(module: str, missing: str) -> None:
    code = BLOCKED.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"--engine ray needs {missing}, which is not installed. Type: pip install" in " ".join(done.stderr.split())


def test_options_of_ray_are_explained(p3iv: RunP3iv) -> None:
    for options, message in (
        (("--replicas", "2"), "--replicas 2 needs --engine ray"),
        (("--address", "auto"), "pass --engine ray"),
        (("--engine", "ray", "--address", "auto"), "Pass --uploads FOLDER"),
        (("--engine", "ray", "--address", "auto", "--uploads", "x", "--port", "0"), "Pass --port with one that is"),
    ):
        done = p3iv("serve", *options)
        assert done.returncode == 1
        assert message in " ".join(done.stderr.split())


def public_ports(pid: int) -> set[int]:
    """The TCP ports on which a process listens for other machines."""
    mine = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            local, _, state, *_, inode = line.split()[1:10]
            address, port = local.split(":")
            if state == "0A" and f"socket:[{inode}]" in mine and not address.endswith("0100007F"):
                ports.add(int(port, 16))
    return ports
