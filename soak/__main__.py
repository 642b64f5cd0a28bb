"""`python -m soak`: everything on two cores, until the time is over; prints counts and failures as JSON."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from pathlib import Path

from p3iv import __version__
from p3iv.experiments.identity import commit
from soak.disk import can_mount
from soak.fuzz import replay
from soak.parts import FULL_MINUTES, PARTS, run_parts


def main() -> int:
    options = read_options()
    if options.replay:
        with tempfile.TemporaryDirectory(prefix="soak-") as work:
            print(replay(options.replay.absolute(), Path(work)))
        return 0
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    parts = run_parts(options.only or PARTS, seed, options.minutes, options.keep.absolute())
    about = {"seed": seed, "version": __version__, "commit": commit(), "minutes": options.minutes}
    result = {**about, "mounted": can_mount(), "parts": parts}
    content = json.dumps(result, indent=2) + "\n"
    sys.stdout.write(content)
    if options.json:
        options.json.write_text(content)
    return int(any(part["failures"] for part in parts.values()))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=FULL_MINUTES, help=f"how long; default: {FULL_MINUTES:g}")
    parser.add_argument("--seed", type=int, help="repeats an earlier soak as far as its time goes; default: a new one")
    parser.add_argument("--only", type=part_names, metavar="PART,...", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to a file")
    parser.add_argument("--keep", type=Path, default=Path("soak-failures"), metavar="DIR", help="for failing inputs")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="read a failing input again, and stop")
    return parser.parse_args()


def part_names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in PARTS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(PARTS)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
