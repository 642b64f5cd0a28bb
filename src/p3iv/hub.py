"""Planners by name: a local folder or file, a planner of the package, or OWNER/NAME on the Hugging Face hub.

This module owns huggingface_hub and imports it only for names on the hub, so that local use opens no connection and
reads no token. What the hub sends is not trusted: only files of fixed names are fetched, of bounded size, with the size
and, where it states one, the hash that the hub states, and they are read as safetensors, JSON, YAML or ONNX.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from p3iv.environment import own_version
from p3iv.errors import CheckpointError, ConfigError, HubError, MissingExtraError, P3ivError, near_misses, warn_caller
from p3iv.shipped import SHIPPED, shipped_planner
from p3iv.types import listed
from p3iv.validation import cut, shown

MAX_PLANNER_BYTES: Final = 2**31  # P3IV has 5 MB; retrieval keeps all training windows
MAX_ENCODER_BYTES: Final = 2**28  # EfficientNet-Lite0 has 13 MB
MAX_TEXT_BYTES: Final = 2**24
MAIN: Final = "main"

_PART = r"[A-Za-z0-9](?:[\w.-]{0,94}[A-Za-z0-9_])?"
_NAME = re.compile(
    rf"(?P<explicit>hf:/{{1,2}})?(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[\w./-]{{1,200}}))?", re.ASCII
)
_LOGIN: Final = "type hf auth login, or set HF_TOKEN"


@dataclass(frozen=True)
class HubName:
    """A planner on the hub."""

    repo: str  # OWNER/NAME
    revision: str | None = None  # a branch, a tag or a commit; None: the newest of the main branch
    is_explicit: bool = False  # hf://OWNER/NAME, which is never a local folder

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}" if self.revision else self.repo


def find_planner(
    name: str | Path, revision: str | None = None, *, on_note: Callable[[str], object] = warn_caller
) -> Path:
    """The local folder or file of a planner, fetched from the hub if it is not on this machine.

    Args:
        name: a run folder, a checkpoint file, a `.onnx` file, a folder of `save_pretrained`, a planner of the package
            such as `tabletop-demo`, or OWNER/NAME of the hub. `hf://OWNER/NAME` is on the hub even if there is such a
            folder, and `OWNER/NAME@REVISION` is one revision of it.
        revision: a branch, a tag or a commit of the hub.
        on_note: is called with what the user should know, such as that the hub cannot be reached.

    Raises:
        CheckpointError: there is nothing of that name.
        HubError: the hub does not give it; the message says why and what to type.
    """
    if not isinstance(name, str | Path):
        raise CheckpointError(f"{shown(name)} is not a planner: pass the name or the path of one.")
    text = name.as_posix() if isinstance(name, Path) else name
    asked = parse_hub_name(text, revision)
    if not (asked and asked.is_explicit):
        found = Path(text) if _exists(text) else shipped_planner(text)
        if found is not None and revision is not None:
            raise ConfigError(f"revision={shown(revision)} is of planners on the hub, but {found} is on this machine.")
        if found is not None:
            return found
    if asked is None or not (asked.is_explicit or _may_be_on_hub(text)):
        raise CheckpointError(_explain_missing(text, asked))
    return fetch_planner(asked, on_note)


def parse_hub_name(text: str, revision: str | None = None) -> HubName | None:
    """The parts of OWNER/NAME, OWNER/NAME@REVISION or hf://OWNER/NAME; None if it is something else."""
    found = _NAME.fullmatch(text)
    if found is None or ".." in text or "--" in found["repo"]:
        return None
    if revision and found["revision"] and revision != found["revision"]:
        raise ConfigError(f"{cut(text)} names another revision than revision={shown(revision)}: leave out one of them.")
    return HubName(found["repo"], revision or found["revision"], bool(found["explicit"]))


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _may_be_on_hub(text: str) -> bool:
    """Whether a name with one slash is not a mistyped path: there is no local folder of its first part."""
    return not Path(text.partition("/")[0]).is_dir()


def _explain_missing(text: str, asked: HubName | None) -> str:
    place = Path(text).parent
    try:
        beside = sorted(path.name for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
    except OSError:  # a folder that cannot be listed
        beside = []
    near = [*near_misses(text, SHIPPED), *(str(place / each) for each in near_misses(Path(text).name, beside))]
    similar = f" Similar: {listed(near)}." if near else ""
    on_hub = f" For the planner of that name on the hub, type hf://{asked}." if asked else ""
    return (
        f"There is no run {cut(text)}.{similar} A planner is a run folder, a checkpoint or .onnx file, or "
        f"OWNER/NAME on the hub.{on_hub} Train first: p3iv train DIR --out RUN."
    )


def fetch_planner(asked: HubName, on_note: Callable[[str], object]) -> Path:
    """The folder of a planner of the hub in the local cache, updated if the hub can be reached.

    Raises:
        HubError: saying why it cannot be had, and what to type.
    """
    hub = _import_hub()
    if hub.constants.HF_HUB_OFFLINE:
        return _cached(asked, f"HF_HUB_OFFLINE is set, and {asked} is not in the local cache. Unset it to fetch it.")
    try:
        with _explained(f"{asked} cannot be fetched", asked):
            commit, files = _list_files(asked)
            folder = Path(hub.snapshot_download(asked.repo, **_options(asked)))
            if folder.name != commit:  # something was pushed in between
                files = _list_files(replace(asked, revision=folder.name))[1]
            for file in files:
                _check_file(folder, file, asked)
            return folder
    except _UnreachableError as error:
        folder = _cached(asked, str(error))
        on_note(f"{error} The copy in the local cache is used.")
        return folder


class _UnreachableError(HubError):
    """The hub does not answer: a copy in the cache will do."""


def _cached(asked: HubName, message: str) -> Path:
    """The copy in the local cache, without any connection."""
    hub = _import_hub()
    try:
        folder = Path(hub.snapshot_download(asked.repo, local_files_only=True, **_options(asked)))
    except (OSError, ValueError) as error:
        raise HubError(message) from error
    if not any((folder / name).exists() for name, size in _limits().items() if size == MAX_PLANNER_BYTES):
        raise HubError(message)
    return folder


def _options(asked: HubName) -> dict[str, Any]:
    """What to fetch: a list of plain names, which match nothing else."""
    us = {"library_name": "p3iv", "library_version": own_version()}
    return {"revision": asked.revision, "allow_patterns": list(_limits()), **us}


@dataclass(frozen=True)
class _RemoteFile:
    """A file as the hub lists it."""

    name: str
    size: int
    sha256: str | None  # None: a small file


def _list_files(asked: HubName) -> tuple[str, list[_RemoteFile]]:
    """The commit, and the files to fetch."""
    hub = _import_hub()
    patience_s = hub.constants.HF_HUB_ETAG_TIMEOUT
    info = hub.HfApi().model_info(asked.repo, revision=asked.revision, files_metadata=True, timeout=patience_s)
    limits = _limits()
    wanted = {file.rfilename: file for file in info.siblings or () if file.rfilename in limits}
    if "config.yaml" not in wanted or not any(limits[name] == MAX_PLANNER_BYTES for name in wanted):
        raise HubError(
            f"{asked} on the hub is not a planner of p3iv, which has config.yaml and model.safetensors. "
            f"`p3iv push RUN OWNER/NAME` shares one."
        )
    for name, file in wanted.items():
        if not isinstance(file.size, int) or not 0 <= file.size <= limits[name]:
            raise HubError(f"{name} of {asked} has {shown(file.size)} bytes, but at most {limits[name]} are allowed.")
    files = [_RemoteFile(name, file.size, file.lfs.sha256 if file.lfs else None) for name, file in wanted.items()]
    return str(info.sha), files


def _limits() -> dict[str, int]:
    """The files that are fetched where they exist, each with the bytes that it may have."""
    from p3iv.planners.header import PRETRAINED, PRETRAINED_TEXTS
    from p3iv.planners.onnx_planner import EXPORTED_FILES

    planner, encoder = EXPORTED_FILES
    planners = dict.fromkeys((str(PRETRAINED), planner), MAX_PLANNER_BYTES)
    return planners | {encoder: MAX_ENCODER_BYTES} | dict.fromkeys(PRETRAINED_TEXTS, MAX_TEXT_BYTES)


def _check_file(folder: Path, expected: _RemoteFile, asked: HubName) -> None:
    """Refuse a file that leads out of the cache, or is not what the hub says; it is removed, to be fetched again."""
    path = folder / expected.name
    real, inside = path.resolve(), folder.parents[1].resolve()  # CACHE/models--OWNER--NAME/snapshots/COMMIT
    if not real.is_relative_to(inside):
        raise HubError(f"{path} leads out of the cache, so it is not read.")
    with real.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest() if expected.sha256 else None
    size = real.stat().st_size
    if (size, sha256) != (expected.size, expected.sha256):
        path.unlink()
        real.unlink(missing_ok=True)
        found, wanted = ((each or "not known")[:12] for each in (sha256, expected.sha256))
        raise HubError(
            f"{expected.name} of {asked} arrived damaged: it has {size} bytes, SHA-256 {found}; the hub says "
            f"{expected.size} bytes, SHA-256 {wanted}. It was removed; type the same command again."
        )


def push_to_hub(
    source: str | Path,
    repo_id: str,
    *,
    private: bool = False,
    revision: str | None = None,
    licence: str | None = None,
    commit_message: str | None = None,
    token: str | None = None,
    create_pr: bool = False,
) -> str:
    """Push a planner with its scores and its model card to the hub, in one commit.

    Args:
        source: what `find_planner` takes.
        repo_id: OWNER/NAME; the repository is made if there is none.
        private: make it private. A repository that is public already is refused.
        revision: the branch; it is made if there is none.
        licence: of the planner, for its card, such as apache-2.0.
        commit_message: by default it names the planner.
        token: by default that of `hf auth login` or HF_TOKEN.
        create_pr: open a pull request in place of a commit to the branch.

    Returns:
        The address of the planner, or of the pull request.

    Raises:
        HubError: saying why it cannot be pushed, and what to type.
    """
    asked = require_hub_name(repo_id, revision)
    api = _open_api(asked, token)
    from p3iv.evaluation.pretrained import save_pretrained  # imports torch

    with tempfile.TemporaryDirectory() as temporary:
        folder = save_pretrained(find_planner(source), Path(temporary) / "planner", name=str(asked), licence=licence)
        with _explained(f"{asked} cannot be pushed", asked):
            api.create_repo(asked.repo, private=private or None, exist_ok=True)
            if private and not api.model_info(asked.repo).private:
                raise HubError(
                    f"{asked.repo} is public already. Make it private in its settings, or choose another name."
                )
            if asked.revision not in (None, MAIN) and not create_pr:
                api.create_branch(asked.repo, branch=asked.revision, exist_ok=True)
            message = commit_message or f"Planner of p3iv {own_version()}"
            place = {"revision": asked.revision, "create_pr": create_pr}
            done = api.create_commit(asked.repo, _changes(api, asked, folder), commit_message=message, **place)
    return str(done.pr_url) if create_pr else hub_url(asked)


def require_hub_name(repo_id: str, revision: str | None = None) -> HubName:
    """The parts of a name on the hub.

    Raises:
        HubError: it is not one.
    """
    asked = parse_hub_name(repo_id, revision)
    if asked is None:
        raise HubError(f"{shown(repo_id)} is not a name on the hub, which is OWNER/NAME, such as your-name/my-planner.")
    return asked


def hub_url(asked: HubName) -> str:
    """The page of a planner on the hub."""
    return f"{_endpoint()}/{asked.repo}" + (f"/tree/{asked.revision}" if asked.revision not in (None, MAIN) else "")


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def _open_api(asked: HubName, token: str | None) -> Any:
    """The client of the hub, for pushing."""
    hub = _import_hub()
    if hub.constants.HF_HUB_OFFLINE:
        raise HubError(f"HF_HUB_OFFLINE is set, so {asked} cannot be pushed. Unset it.")
    if not (token or hub.get_token()):
        raise HubError(f"{asked} cannot be pushed: there is no token of the hub. To get one, {_LOGIN}.")
    return hub.HfApi(token=token, library_name="p3iv", library_version=own_version())


def _changes(api: Any, asked: HubName, folder: Path) -> list[Any]:
    """Add the files of a folder, and remove those of an older planner that it does not have."""
    hub = _import_hub()
    new = sorted(path.name for path in folder.iterdir())
    try:
        there = set(api.list_repo_files(asked.repo, revision=asked.revision))
    except hub.errors.RevisionNotFoundError:  # an empty repository has no branch yet
        there = set()
    old = sorted(there & _limits().keys() - set(new))
    return [
        *(hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(folder / name)) for name in new),
        *(hub.CommitOperationDelete(path_in_repo=name) for name in old),
    ]


def _import_hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
        import huggingface_hub.utils
    except ImportError as error:
        raise MissingExtraError("huggingface_hub", "hub", "A planner on the hub") from error
    return huggingface_hub


@contextmanager
def _explained(what: str, asked: HubName) -> Iterator[None]:
    """Turn every error of the hub, and of an answer that is not one of a hub, into a sentence."""
    try:
        with _quiet(_import_hub().utils):
            yield
    except P3ivError:
        raise
    except Exception as error:  # the library raises its own, httpx's, and KeyError or AssertionError for odd answers
        kind = _UnreachableError if _is_unreachable(error) else HubError
        raise kind(f"{what}: {_reason(error, asked)}") from error


@contextmanager
def _quiet(utils: Any) -> Iterator[None]:
    """Keep the library's own warnings, and bars where there is no terminal, out of what is printed."""
    verbosity, had_bars = utils.logging.get_verbosity(), not utils.are_progress_bars_disabled()
    utils.logging.set_verbosity_error()
    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        utils.logging.set_verbosity(verbosity)
        if had_bars:
            utils.enable_progress_bars()


def _status(error: BaseException) -> int | None:
    """The HTTP status of an error, or of the one that it was raised from."""
    responses = (getattr(each, "response", None) for each in _causes(error))
    return next((int(response.status_code) for response in responses if response is not None), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_unreachable(error: Exception) -> bool:
    """Whether there was no answer, or one that asks for patience; by names, since releases use several HTTP clients."""
    status = _status(error)
    if status is not None:
        return status >= 500 or status == 429
    names = {kind.__name__ for each in _causes(error) for kind in type(each).__mro__}
    return bool(names & {"TransportError", "ConnectionError"})


def _reason(error: Exception, asked: HubName) -> str:
    """Why, and what to type."""
    errors, status, page = _import_hub().errors, _status(error), hub_url(HubName(asked.repo))
    if isinstance(error, errors.GatedRepoError):
        return f"its owner grants access by request. Ask for it at {page}, then {_LOGIN}."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"there is no revision {asked.revision} of {asked.repo}. Its revisions are at {page}."
    if status is not None:
        return _explain_status(404 if isinstance(error, errors.RepositoryNotFoundError) else status)
    if _is_unreachable(error):
        return f"the hub does not answer ({type(error).__name__}). Check the connection, and try again."
    return f"{cut(str(error)) or type(error).__name__}. Try again later."


def _explain_status(status: int) -> str:
    known = {
        401: f"the hub does not accept the token (401). For another, {_LOGIN}.",
        403: f"the token does not allow it (403). Make one that does at {_endpoint()}/settings/tokens.",
        404: f"there is no such planner on the hub, or it is private. Check the name; if it is private, {_LOGIN}.",
    }
    return known.get(status, f"the hub answered with an error ({status}). Try again later.")
