"""No client can take more than its share: of bytes, of time, of disk, of connections, of requests."""

from __future__ import annotations

import gzip
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from clips import write_clip
from serving.conftest import SMALL_LIMITS, TOKEN, OpenClient
from serving.hostile_files import padded
from soak.raw_http import exchange, read_answers, request
from soak.service_process import ServiceProcess, wait_for

MIB = 1 << 20
AUTHORIZED = {"authorization": f"Bearer {TOKEN}"}


def chunks(number: int, size: int = 1 << 16) -> Iterator[bytes]:
    """A body of which nobody knows the length."""
    for _ in range(number):
        yield bytes(size)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("clips") / "small.mp4"
    write_clip(path, range(0, 3000, 100))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("PUT", "/v1/videos", SMALL_LIMITS["upload_mib"] * MIB),
        ("PUT", "/v1/pictures", SMALL_LIMITS["picture_mib"] * MIB),
        ("POST", "/v1/plan", SMALL_LIMITS["json_kib"] * 1024),
        ("POST", "/v1/probability", SMALL_LIMITS["json_kib"] * 1024),
        ("POST", "/v1/session", SMALL_LIMITS["json_kib"] * 1024),
        ("DELETE", "/v1/videos/" + "0" * 64, SMALL_LIMITS["json_kib"] * 1024),
        ("GET", "/v1/info", SMALL_LIMITS["json_kib"] * 1024),
    ],
)
def test_a_large_body_is_refused_whether_it_says_its_length_or_not(
    strict: ServiceProcess, strict_client: httpx.Client, method: str, path: str, limit: int
) -> None:
    declared = request(method, path, content_length=str(limit + 1), **AUTHORIZED)
    (answer,) = exchange(strict.port, declared)  # before any byte of the body
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    if method in ("GET", "DELETE"):
        return  # their bodies are never read
    counted = strict_client.request(
        method, path, content=chunks(limit // 65536 + 2), headers={"Content-Type": "application/json"}
    )
    assert (counted.status_code, counted.json()["error"]["code"]) == (413, "too_large")
    assert list(strict.folder.glob("p3iv-uploads-*/*.part")) == []


def test_a_compressed_body_is_not_unpacked(client: httpx.Client, service: ServiceProcess) -> None:
    """A small body that would become 50 MB is read as it is."""
    before = service.usage().resident_mb
    packed = gzip.compress(b'{"start": "' + bytes(50 * MIB) + b'"}')
    answer = client.post(
        "/v1/plan", content=packed, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert service.usage().resident_mb < before + 30


def test_lengths_that_are_not_numbers(strict: ServiceProcess) -> None:
    for length in ("-1", "+1", "1e3", "0x10", "9" * 400, "1, 2", "\xb2", ""):
        for answer in exchange(strict.port, request("PUT", "/v1/videos", content_length=length, **AUTHORIZED)):
            assert answer.status in (400, 413)
            assert answer.error["message"]


def test_a_body_that_stops_is_given_up(strict: ServiceProcess) -> None:
    """It declares 100 bytes and sends 10; the limit is a second without a byte."""
    for target in ("/v1/videos", "/v1/pictures"):
        sent = request("PUT", target, content_length="100", **AUTHORIZED) + b"0123456789"
        (answer,) = exchange(strict.port, sent)
        assert (answer.status, answer.error["code"]) == (408, "too_slow")
    sent = request("POST", "/v1/plan", content_length="100", content_type="application/json", **AUTHORIZED) + b"{"
    (answer,) = exchange(strict.port, sent)
    assert (answer.status, answer.error["code"]) == (408, "too_slow")
    assert list(strict.folder.glob("p3iv-uploads-*/*.part")) == []


def test_a_slow_body_that_goes_on_is_taken(strict: ServiceProcess, small: bytes) -> None:
    """It takes longer than a second, the limit for a pause."""
    size = len(small) // 3 + 1
    with socket.create_connection(("127.0.0.1", strict.port), 20) as connection:
        connection.sendall(request("PUT", "/v1/videos", content_length=str(len(small)), **AUTHORIZED))
        for first in range(0, len(small), size):
            connection.sendall(small[first : first + size])
            time.sleep(0.6)
        (answer,) = read_answers(connection.recv(1 << 16))
    assert answer.status in (200, 201)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: local", b"POST / HTTP/1.1\r\nX:"])
def test_a_connection_without_a_request_is_closed(strict: ServiceProcess, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), 10) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


def test_headers_that_come_byte_by_byte_are_given_up(strict: ServiceProcess) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(100):
                connection.sendall(b"X: y\r\n")
                time.sleep(0.1)


def test_a_client_that_does_not_read_is_given_up(strict: ServiceProcess, strict_client: httpx.Client) -> None:
    video = strict_client.get("/v1/info").json()["example"]["video"]
    strict_client.close()
    wait_for(lambda: count_sockets(strict) == 1, "the end of other connections")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", strict.port))
        connection.sendall(100 * request("GET", f"/v1/videos/{video}/file", **AUTHORIZED))  # 40 MB
        wait_for(lambda: count_sockets(strict) == 2, "the connection")
        wait_for(lambda: count_sockets(strict) == 1, "its end", 20)


def count_sockets(service: ServiceProcess) -> int:
    """The sockets of TCP that the main process has: one that listens, and one per connection."""
    rows = [line.split() for line in Path(f"/proc/{service.pid}/net/tcp").read_text().splitlines()[1:]]
    of_tcp = {f"socket:[{row[9]}]" for row in rows}
    links = [str(path.readlink()) for path in Path(f"/proc/{service.pid}/fd").iterdir() if path.is_symlink()]
    return len(of_tcp & set(links))


def test_there_are_not_more_connections_than_handles(service: ServiceProcess) -> None:
    opened = [socket.create_connection(("127.0.0.1", service.port), 10) for _ in range(400)]
    try:
        (answer,) = exchange(service.port, b"")
        assert (answer.status, answer.error["code"]) == (503, "busy")
        assert int(answer.headers["retry-after"]) > 0
    finally:
        for connection in opened:
            connection.close()
    wait_for(lambda: exchange(service.port, request("GET", "/healthz"))[0].status == 200, "room for a connection")


@contextmanager
def stopped_worker(service: ServiceProcess) -> Iterator[None]:
    """The process that decodes does nothing during a block."""
    (pid,) = service.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if pid in service.worker_pids():
            os.kill(pid, signal.SIGCONT)


def ask_for_frames(client: httpx.Client, number: int) -> Iterator[Future[httpx.Response]]:
    """Ask for frames one after the other, each when the one before is running or waiting."""
    video = client.get("/v1/info").json()["example"]["video"]
    client.get(f"/v1/videos/{video}")
    with ThreadPoolExecutor(number) as threads:
        for at in range(number):
            yield threads.submit(client.get, f"/v1/videos/{video}/frame?t={at}")
            wait_for(lambda at=at: waiting_jobs(client) >= min(at, 1), "a job")  # type: ignore[misc]


def waiting_jobs(client: httpx.Client) -> float:
    (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith("p3iv_jobs_waiting "))
    return float(line.split()[1])


def test_a_full_queue_and_a_job_without_an_end(strict: ServiceProcess, strict_client: httpx.Client) -> None:
    """One job runs and never ends, one waits, and the next is refused."""
    strict_client.get("/v1/videos/" + strict_client.get("/v1/info").json()["example"]["video"])
    with stopped_worker(strict):
        running, waiting, refused = ask_for_frames(strict_client, 3)
        assert (refused.result().status_code, refused.result().json()["error"]["code"]) == (503, "busy")
        assert int(refused.result().headers["retry-after"]) > 0
        assert (running.result().status_code, running.result().json()["error"]["code"]) == (503, "too_long")
        assert waiting.result().status_code in (200, 503)  # its own time may be over, too
    assert strict_client.get("/readyz").status_code == 200
    video = strict_client.get("/v1/info").json()["example"]["video"]
    wait_for(lambda: strict_client.get(f"/v1/videos/{video}/frame?t=1").status_code == 200, "a new process", 60)


def test_a_client_that_goes_away_gives_its_place_back(strict: ServiceProcess, strict_client: httpx.Client) -> None:
    video = strict_client.get("/v1/info").json()["example"]["video"]
    strict_client.get(f"/v1/videos/{video}")
    question = {"start": {"video": video, "t": 3}, "goal": {"video": video, "t": 20}}
    events = {"Accept": "text/event-stream"}
    with stopped_worker(strict):
        with strict_client.stream("POST", "/v1/plan", json=question, headers=events) as answer:
            lines = answer.iter_lines()  # without a name it would be deleted, which closes the connection
            assert next(lines) == "event: progress"
            wait_for(lambda: waiting_jobs(strict_client) == 1, "the second moment")
        wait_for(lambda: waiting_jobs(strict_client) == 0, "its end", 2.5)  # before its time is over
    wait_for(lambda: strict_client.post("/v1/plan", json=question).status_code == 200, "an answer", 60)


def test_the_oldest_uploads_make_room(strict: ServiceProcess, strict_client: httpx.Client, small: bytes) -> None:
    ids = []
    for number in range(5):
        answer = strict_client.put("/v1/videos", content=padded(small, 900_000, seed=number))
        assert answer.status_code == 201
        ids.append(answer.json()["id"])
        (folder,) = strict.folder.glob("p3iv-uploads-*")
        assert sum(path.stat().st_size for path in folder.iterdir()) <= SMALL_LIMITS["disk_mib"] * MIB + 10_000
        time.sleep(0.02)  # so that one is older than the other
    listed = [video["id"] for video in strict_client.get("/v1/videos").json()["videos"] if video["source"] == "upload"]
    assert listed == list(reversed(ids[2:]))


def test_plans_of_a_client_on_a_public_address(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.3.1", public_token)
    video = client.get("/v1/info").json()["example"]["video"]
    question = {"start": {"video": video, "t": 3}, "goal": {"video": video, "t": 20}}
    answers = [client.post("/v1/plan", json=question) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert answers[-1].json()["error"]["code"] == "too_many_requests"
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60
    assert client.post("/v1/probability", json=question | {"plan": ["x"]}).status_code == 429
    assert client.get("/v1/info").status_code == 200
    assert public_client("127.0.3.2", public_token).post("/v1/plan", json=question).status_code == 200


def test_a_client_cannot_claim_to_be_another(public_client: OpenClient, public_token: str) -> None:
    client = public_client("127.0.3.4", public_token)
    answers = [
        client.post(
            "/v1/plan", json={}, headers={"X-Forwarded-For": f"10.0.0.{number}", "Forwarded": f"for=10.0.0.{number}"}
        )
        for number in range(5)
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 400, 429, 429]


def test_uploads_of_a_client_on_a_public_address(public_client: OpenClient, public_token: str, small: bytes) -> None:
    client = public_client("127.0.3.3", public_token)
    answers = [client.put(f"/v1/{kind}", content=small) for kind in ("videos", "pictures", "videos", "pictures")]
    assert [answer.status_code for answer in answers] == [201, 422, 429, 429]
    assert 60 < int(answers[-1].headers["retry-after"]) <= 3600


def test_no_such_limits_on_this_machine(client: httpx.Client) -> None:
    assert {client.put("/v1/pictures", content=b"x").status_code for _ in range(12)} == {422}
