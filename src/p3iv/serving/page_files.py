"""The files of the page, read once from the package and kept compressed."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

from p3iv.serving.problems import not_found

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the page, as it is sent."""

    content: bytes
    compressed: bytes
    media_type: str
    tag: str  # changes with the content

    def response(self, headers: Headers) -> Response:
        """The file, or that the browser has it already."""
        about = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=about)
        if "gzip" in headers.get("accept-encoding", ""):
            return Response(self.compressed, headers=about | {"Content-Encoding": "gzip"}, media_type=self.media_type)
        return Response(self.content, headers=about, media_type=self.media_type)


def read_page() -> dict[str, PageFile]:
    """The files of the page by name."""
    found = (item for item in files("p3iv.serving").joinpath("page").iterdir() if item.is_file())
    return {item.name: _file(item.name, item.read_bytes()) for item in found if _ending(item.name) in TYPES}


def find_file(page: dict[str, PageFile], name: str) -> PageFile:
    """A file of the page; there are no others, whatever the name looks like.

    Raises:
        ServiceError: there is none of that name.
    """
    if name not in page:
        raise not_found("file")
    return page[name]


def _file(name: str, content: bytes) -> PageFile:
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return PageFile(content, gzip.compress(content, mtime=0), TYPES[_ending(name)], tag)


def _ending(name: str) -> str:
    return name.rpartition(".")[2]
