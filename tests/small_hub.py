"""A small Hugging Face hub on the loopback: the requests that huggingface_hub makes to push and to fetch a model.

The owner `faulty` has repositories that fail, each in the way that its name says: `faulty/500`, `faulty/gated`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN, READ_TOKEN = "hf_of_the_test", "hf_that_may_only_read"
BAD_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105 - the hub's message
EMPTY = "0" * 40
PLANNER = "model.safetensors"

Files = dict[str, bytes]


@dataclass
class Repository:
    """The files of every commit, and the commit of every branch."""

    private: bool = False
    commits: dict[str, Files] = field(default_factory=lambda: {EMPTY: {".gitattributes": b""}})
    branches: dict[str, str] = field(default_factory=lambda: {"main": EMPTY})
    messages: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    body: bytes = b"{}"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):  # noqa: N818
    """An answer with an error."""

    def __init__(self, status: int, code: str = "", message: str = "") -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message}
        self.answer = Answer(b"{}", status, {name: value for name, value in headers.items() if value})


class Dropped(Exception):  # noqa: N818
    """No answer: the connection is closed."""


@dataclass
class SmallHub:
    """What the hub holds, and every request that it got."""

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    large: Files = field(default_factory=dict)  # uploads, by SHA-256
    requests: list[str] = field(default_factory=list)
    is_down: bool = False

    def files(self, repo: str, branch: str = "main") -> Files:
        """The files of the newest commit of a branch."""
        repository = self.repositories[repo]
        return {name: data for name, data in repository.commits[repository.branches[branch]].items() if name[0] != "."}

    def answer(self, method: str, path: str, token: str, body: bytes) -> Answer:
        self.requests.append(f"{method} {path}")
        place = unquote(urlsplit(path).path).strip("/")
        if self.is_down:
            raise Refused(503)
        if method in ("POST", "PUT") and token != TOKEN:
            raise Refused(403 if token == READ_TOKEN else 401, message=BAD_TOKEN)
        for pattern, reply in ROUTES.items():
            if found := re.fullmatch(pattern, place):
                return reply(self, body, **found.groupdict())
        raise Refused(404)

    def create(self, body: bytes) -> Answer:
        wanted = json.loads(body)
        repo = f"{wanted['organization']}/{wanted['name']}"
        is_new = repo not in self.repositories
        is_private = wanted.get("visibility") == "private" or bool(wanted.get("private"))
        self.repositories.setdefault(repo, Repository(is_private))
        return as_json({"url": f"{self.url}/{repo}"}, status=200 if is_new else 409)

    def commit_of(self, repo: str, revision: str | None) -> tuple[Repository, str]:
        repository = self.repositories.get(repo)
        if repository is None:
            raise Refused(404, "RepoNotFound")
        commit = repository.branches.get(revision or "main", revision or "main")
        if commit not in repository.commits:
            raise Refused(404, "RevisionNotFound")
        return repository, commit

    def info(self, _: bytes, repo: str, revision: str | None = None) -> Answer:
        if repo.startswith("faulty/"):
            return as_json(describe("0" * 40, faulty_files(repo)))
        repository, commit = self.commit_of(repo, revision)
        files = [about(name, data) for name, data in repository.commits[commit].items()]
        return as_json(describe(commit, files) | {"private": repository.private})

    def tree(self, _: bytes, repo: str, revision: str) -> Answer:
        if repo.startswith("faulty/"):
            return as_json(faulty_files(repo))
        repository, commit = self.commit_of(repo, revision)
        return as_json([about(name, data) for name, data in repository.commits[commit].items()])

    def branch(self, _: bytes, repo: str, revision: str) -> Answer:
        repository, commit = self.commit_of(repo, None)
        repository.branches.setdefault(revision, commit)
        return Answer()

    def preupload(self, body: bytes, repo: str, revision: str) -> Answer:
        self.commit_of(repo, revision)
        names = [file["path"] for file in json.loads(body)["files"]]
        modes = [("lfs" if name == PLANNER else "regular", name) for name in names]
        return as_json({"files": [{"path": name, "uploadMode": mode, "shouldIgnore": False} for mode, name in modes]})

    def batch(self, body: bytes, **_: str) -> Answer:
        objects = [
            each | {"actions": {"upload": {"href": f"{self.url}/large/{each['oid']}"}}}
            for each in json.loads(body)["objects"]
        ]
        return as_json({"transfer": "basic", "objects": objects})

    def upload(self, body: bytes, oid: str) -> Answer:
        self.large[oid] = body
        return Answer()

    def commit(self, body: bytes, repo: str, revision: str) -> Answer:
        repository, commit = self.commit_of(repo, revision)
        files = dict(repository.commits[commit])
        header, *changes = [json.loads(line) for line in body.splitlines()]
        for change in changes:
            value = change["value"]
            if change["key"] == "deletedFile":
                del files[value["path"]]
            else:
                is_large = change["key"] == "lfsFile"
                files[value["path"]] = self.large[value["oid"]] if is_large else base64.b64decode(value["content"])
        repository.messages.append(header["value"]["summary"])
        new = f"{len(repository.messages):040x}"
        repository.commits[new], repository.branches[revision] = files, new
        return as_json({"commitUrl": f"{self.url}/{repo}/commit/{new}", "commitOid": new})

    def resolve(self, _: bytes, repo: str, revision: str, name: str) -> Answer:
        if repo.startswith("faulty/"):
            commit, data = EMPTY, b"not what the hub says"[: 3 if repo == "faulty/short" else None]
        else:
            repository, commit = self.commit_of(repo, revision)
            data = repository.commits[commit][name]
        return Answer(data, headers={"ETag": f'"{sha256(data)}"', "X-Repo-Commit": commit})


_REPO = "(?P<repo>[^/]+/[^/]+)"
ROUTES: dict[str, Callable[..., Answer]] = {
    "api/repos/create": SmallHub.create,
    "api/validate-yaml": lambda *_: Answer(),
    f"api/models/{_REPO}(/revision/(?P<revision>.+))?": SmallHub.info,
    f"api/models/{_REPO}/tree/(?P<revision>.+)": SmallHub.tree,
    f"api/models/{_REPO}/branch/(?P<revision>.+)": SmallHub.branch,
    f"api/models/{_REPO}/preupload/(?P<revision>.+)": SmallHub.preupload,
    f"api/models/{_REPO}/commit/(?P<revision>.+)": SmallHub.commit,
    f"{_REPO}.git/info/lfs/objects/batch": SmallHub.batch,
    "large/(?P<oid>.+)": SmallHub.upload,
    f"{_REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)": SmallHub.resolve,
}


def faulty_files(repo: str) -> list[dict[str, Any]]:
    """Fail, or list files: a planner that is too large or of another hash, or none."""
    how = repo.removeprefix("faulty/")
    if how == "slow":
        time.sleep(1.5)
    if how in ("dropped", "slow"):
        raise Dropped
    if how.isdecimal():
        raise Refused(int(how), message=BAD_TOKEN if how == "401" else "")
    if how == "gated":
        raise Refused(403, "GatedRepo")
    if how == "nonsense":
        return [{"type": 3}]
    files = [about("config.yaml", b"not what the hub says")]
    size = 2**40 if how == "huge" else 21
    return files if how == "other" else [*files, about(PLANNER, b"the right content") | {"size": size}]


def describe(commit: str, files: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "x/y", "sha": commit, "private": False, "siblings": files, "tags": []}


def about(name: str, data: bytes) -> dict[str, Any]:
    """A file as `info` and `tree` list it, with the fields of both."""
    digest, size = sha256(data), len(data)
    lfs = {"lfs": {"sha256": digest, "oid": digest, "size": size, "pointerSize": 100}} if name == PLANNER else {}
    return {"type": "file", "path": name, "rfilename": name, "size": size, "oid": digest, "blobId": digest, **lfs}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def as_json(content: Any, *, status: int = 200) -> Answer:
    return Answer(json.dumps(content).encode(), status, {"Content-Type": "application/json"})


class _Handler(BaseHTTPRequestHandler):
    hub: SmallHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path.startswith("/large/"):  # the address is the permission, as in a signed URL
            token = TOKEN
        try:
            answer = self.hub.answer(self.command, self.path, token, body)
        except Refused as refused:
            answer = refused.answer
        except Dropped:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815


@contextmanager
def serve_hub() -> Iterator[SmallHub]:
    """A hub that runs until the end of the block."""
    hub = SmallHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
