"""A page under observation: what it asks for, what its console says, and what it must never do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

WAIT_MS = 30_000  # for a state, on a machine that does other things as well
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 400, "height": 800},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}

# The browser itself writes an error into the console when an answer has an error status.
_STATUS = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")
_TELL_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  tellViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@dataclass
class Watch:
    """What a page has done so far."""

    requests: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _provoked: set[str] = field(default_factory=set)

    def provoke(self, *errors: int | str) -> None:
        """Name the error statuses, or the network errors, that this test provokes; any other is a finding."""
        self._provoked |= set(map(str, errors))

    def paths(self) -> list[str]:
        """The method and path of every request so far, without its query."""
        return [f"{each.method} {urlsplit(each.url).path}" for each in self.requests]

    def findings(self) -> list[str]:
        """What no page may do: errors, violations of its policy, dialogs, requests to another host."""
        hosts = {urlsplit(each.url).netloc for each in self.requests if not each.url.startswith(("blob:", "data:"))}
        others = [] if len(hosts) <= 1 else [f"requests to several hosts: {sorted(hosts)}"]
        return [*self.problems, *others]

    def on_request(self, request: Request) -> None:
        """Note a request."""
        self.requests.append(request)

    def on_console(self, message: ConsoleMessage) -> None:
        """Note errors and warnings."""
        status = _STATUS.match(message.text)
        is_provoked = status is not None and status[1] in self._provoked
        is_provoked = is_provoked or any(f"net::{error}" in message.text for error in self._provoked)
        if message.type in ("error", "warning") and not is_provoked:
            self.problems.append(f"console: {message.text} ({message.location['url']})")

    def on_dialog(self, dialog: Dialog) -> None:
        """Note a dialog, such as that of alert(), and close it."""
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def watched_page(browser: Browser, watch: Watch, **options: Any) -> Iterator[Page]:
    """A page in a profile of its own; at the end there must be no finding."""
    context = browser.new_context(locale="en-GB", **options)
    context.set_default_timeout(WAIT_MS)
    context.expose_function("tellViolation", lambda text: watch.problems.append(f"policy: {text}"))
    context.add_init_script(_TELL_VIOLATIONS)
    context.on("request", watch.on_request)
    context.on("console", watch.on_console)
    context.on("dialog", watch.on_dialog)
    context.on("weberror", lambda error: watch.problems.append(f"script: {error.error}"))
    try:
        yield context.new_page()
    finally:
        context.close()
    if findings := watch.findings():
        raise AssertionError("\n".join(findings))
