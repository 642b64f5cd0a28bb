"""How well do samples cover the plans that occur? A table from run folders that `p3iv evaluate` has been through.

usage: python benchmarks/plan_distributions.py RUN [RUN ...] --table docs/results/plan_distributions.csv

One row per run and mode of sampling. Rows that the table already has (data, planner, seed, mode) are replaced.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import yaml

from p3iv.config import config_from, preset_config, setting_names
from p3iv.files import atomic_file

SHARES = ("mode_precision", "mode_recall", "cosine_distance")
COLUMNS = (
    *("data", "planner", "horizon", "seed", "epochs", "cpu_s", "best_epoch", "test_windows", "mode", "samples"),
    *("kl", "nll", *SHARES, "distinct_plans", "exact_kl", "exact_nll", "truth_kl", "truth_exact_kl"),
    *("viterbi_sr", "viterbi_paper_sr", "argmax_sr", "mode_sr", "retrieval_sr", "command"),
)


def rows_of(run: Path) -> list[dict[str, str]]:
    """One row per mode."""
    found: dict[str, Any] = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as file:
        last = list(csv.DictReader(file))[-1]
    content = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    shared = {
        "data": found["data"],
        "planner": "probabilistic" if content["model"]["noise_width"] else "deterministic",
        "horizon": found["horizon"],
        "seed": found["seed"],
        "epochs": last["epoch"],
        "cpu_s": f"{float(last['cpu_s']):.0f}",
        "best_epoch": found["epoch"],
        "test_windows": found["num_windows"],
        "samples": found["samples"]["number"],
        "exact_kl": _number(found["distribution"]["exact_kl"]),
        "exact_nll": _number(found["distribution"]["exact_nll"]),
        "truth_exact_kl": _number(found["truth"]["exact_kl"]) if found["truth"] else "",
        **{f"{name}_sr": _percent(found["decoders"][name]["success_rate"]) for name in _DECODERS},
        "retrieval_sr": _percent(found["baselines"]["retrieval"]["success_rate"]),
        "command": f"{_command(content)}; p3iv evaluate RUN",
    }
    return [
        {
            **{name: str(value) for name, value in shared.items()},
            "mode": mode,
            **{name: _number(scores[name]) for name in ("kl", "nll", "distinct_plans")},
            **{name: _percent(scores[name]) for name in SHARES},
            "truth_kl": _number(found["truth"]["modes"][mode]["kl"]) if found["truth"] else "",
        }
        for mode, scores in found["modes"].items()
    ]


_DECODERS = ("viterbi", "viterbi_paper", "argmax", "mode")


def _command(content: dict[str, Any]) -> str:
    """The command that trains the run: its preset, and every setting that differs from it."""
    config, preset = config_from(content), preset_config(content["preset"])
    words = [f"p3iv train DIR --out RUN --preset {config.preset} --horizon {config.data.horizon}"]
    words.append(f"--split {config.data.split} --seed {config.seed}")
    for name in setting_names():
        section, _, field = name.partition(".")
        if section in ("model", "loss", "optim"):
            value = getattr(getattr(config, section), field)
            if value != getattr(getattr(preset, section), field):
                words.append(f"--set {name}={value}")
    return " ".join(words)


def _number(score: dict[str, float]) -> str:
    return f"{score['value']:.3f}"


def _percent(score: dict[str, float]) -> str:
    return f"{100 * score['value']:.2f}"


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return row["data"], row["planner"], row["horizon"], row["seed"], row["mode"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--table", type=Path, required=True)
    args = parser.parse_args()
    table: dict[tuple[str, ...], dict[str, str]] = {}
    if args.table.exists():
        with args.table.open(newline="", encoding="utf-8") as file:
            table = {_key(row): row for row in csv.DictReader(file)}
    for run in args.runs:
        table |= {_key(row): row for row in rows_of(run)}
    with atomic_file(args.table) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table[key] for key in sorted(table))
    print(json.dumps({"rows": len(table)}))


if __name__ == "__main__":
    main()
