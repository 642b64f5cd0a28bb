"""The life of a service: it says when it is ready, and told to stop it ends what it does and leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import httpx

from clips import write_clip
from serving.test_api_follow import read_events
from soak.service_process import running_service, wait_for


def test_a_service_is_stopped_while_it_starts() -> None:
    port = free_port()
    with running_service("--port", str(port), "--limit", "jobs=1", wait=False):
        wait_for(lambda: answers(port), "the first answer", 60)
    # The end of the block checks exit code, processes, upload folder and output.


def test_a_service_from_its_start_to_its_last_answer(clip: Path) -> None:
    port = free_port()
    with (
        running_service("--port", str(port), "--limit", "jobs=1", wait=False) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        wait_for(lambda: answers(port), "the first answer", 60)
        early = {path: client.get(path) for path in ("/healthz", "/readyz", "/v1/info", "/metrics")}
        service.wait_until_ready()
        assert client.get("/readyz").json() == {"status": "ok"}
        assert _events_when_stopped(client, service.pid, clip)[-1] == "event: result"
    assert early["/healthz"].json() == {"status": "ok"}
    for path in ("/readyz", "/v1/info"):
        assert (early[path].status_code, early[path].json()["error"]["code"]) == (503, "not_ready")
        assert early[path].headers["retry-after"] == "1"
    assert early["/metrics"].status_code == 404  # without --metrics


def _events_when_stopped(client: httpx.Client, pid: int, clip: Path) -> list[str]:
    """The events of a question that is being answered when the service is told to stop."""
    video = client.put("/v1/videos", content=clip.read_bytes()).json()["id"]
    question = {"start": {"video": video, "t": 3}, "goal": {"video": video, "t": 20}, "samples": 10_000}
    with client.stream("POST", "/v1/plan", json=question, headers={"Accept": "text/event-stream"}) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: progress"
        os.kill(pid, signal.SIGTERM)
        return [line for line in lines if line.startswith("event: ")]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=60).status_code == 200
    except httpx.ConnectError:
        return False


def test_a_video_that_is_followed_ends_with_the_service(queries_run: Path, tmp_path: Path) -> None:
    write_clip(tmp_path / "long.mp4", range(0, 300_000, 500))
    with (
        running_service(str(queries_run), "--limit", "jobs=1") as service,
        httpx.Client(base_url=service.url, timeout=60) as client,
    ):
        video = client.put("/v1/videos", content=(tmp_path / "long.mp4").read_bytes()).json()["id"]
        with client.stream("POST", "/v1/follow", json={"video": video}) as answer:
            events = read_events(answer.iter_lines())
            assert next(events)[0] == "moment"
            os.kill(service.pid, signal.SIGTERM)
            began = time.monotonic()
            *_, (name, content) = events
        assert (name, content["error"]["message"]) == ("error", "The service is being stopped.")
        assert time.monotonic() - began < 8  # it does not wait until running requests are cut off
