"""Find Chromium for the tests of the page, and install it where that is possible.

usage: python -m tools.chromium

As root on Debian or Ubuntu, a missing Chromium is installed with apt-get. Elsewhere the message says what to type; the
tests of the page are then skipped, unless P3IV_BROWSER=required is set, as in continuous integration.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ADVICE = "Install Chromium or Chrome to run the tests of the page; on Debian: apt-get install chromium"


def find_browser() -> str | None:
    """The path of an installed browser."""
    found = (shutil.which(name) for name in NAMES)
    return next((path for path in found if path), None)


def is_required() -> bool:
    """Whether a missing browser is an error."""
    return os.environ.get("P3IV_BROWSER") == "required"


def install() -> None:
    """Install Chromium with apt-get; does nothing where it cannot."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--yes", "--no-install-recommends", "chromium")):
        subprocess.run(["apt-get", "--quiet", *arguments], env=environment, check=False, stdout=sys.stderr)  # noqa: S607


def main() -> int:
    if find_browser() is None:
        install()
    if (browser := find_browser()) is None:
        print(ADVICE)
        return 1 if is_required() else 0
    print(f"browser: {browser}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
