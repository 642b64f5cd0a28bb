"""`p3iv export RUN` writes a planner, and the encoder of its features, as ONNX files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from p3iv.cli.console import out, print_json, print_next, print_note
from p3iv.cli.options import AsJson, Overwrite, RunDir, choice, file_option, weights_option
from p3iv.errors import ConfigError

if TYPE_CHECKING:
    from p3iv.encoders.identity import EncoderIdentity
    from p3iv.export.encoder import EncoderReport
    from p3iv.export.planner import ExportReport
    from p3iv.onnx_model import Port

EXAMPLE = "Example: p3iv export runs/mine --out planner.onnx --encoder int8"

ENCODERS = ("float32", "int8", "none")


def export_command(
    run: RunDir,
    target: Annotated[
        Path | None, file_option("--out", "The .onnx file to write; without it, planner.onnx in RUN.")
    ] = None,
    form: Annotated[str, choice("--format", ("onnx",), help="The file format.")] = "onnx",
    encoder: Annotated[
        str,
        choice(
            "--encoder",
            ENCODERS,
            help="The image encoder to write beside it, as FILE.encoder.onnx, so that videos and pictures can be "
            "planned from: as it is, in int8 (smaller and faster, features slightly different), or none.",
        ),
    ] = "float32",
    weights: Annotated[str | None, weights_option(", if not the packaged ones.")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a planner as an ONNX file, which plans without torch.

    The file describes itself: actions, horizon, scaling of the features, transitions, encoder and version are in its
    metadata. Its scores are compared with those of torch before it is kept. Planners that can be exported: p3iv and
    p3iv-plus.
    """
    from p3iv.planners.onnx_planner import EXPORTED, encoder_beside

    path = target or (run.parent if run.is_file() else run) / EXPORTED
    if path.suffix.lower() != ".onnx":
        raise ConfigError(f"--out {path}, but it must end in .{form}.")
    for file in (path, encoder_beside(path)):
        if file.exists() and not overwrite:
            raise ConfigError(f"{file} is there already. Pass --overwrite to replace it, or another --out.")
    from p3iv.export.planner import export_planner
    from p3iv.planners.header import BEST, read_header

    features = read_header(run if run.is_file() else run / BEST).encoder
    written = _export_encoder(features, encoder_beside(path), encoder, weights)
    report = export_planner(run, path)
    if as_json:
        print_json({**asdict(report), "encoder": asdict(written) if written else None})
    else:
        _show(report, written)
        print_next("info", report.path)


def _export_encoder(
    features: EncoderIdentity | None, path: Path, precision: str, weights: str | None
) -> EncoderReport | None:
    """Write the encoder beside a planner, if it is wanted and can be exported."""
    from p3iv.encoders.efficientnet_lite0 import NAME

    if precision == "none":
        return None
    if features is None or features.name != NAME:
        print_note(
            f"the planner's features are of {features or 'an unnamed encoder'}, which cannot be exported: without "
            f"torch it plans from features only. {NAME} can."
        )
        return None
    from p3iv.export.encoder import export_encoder

    return export_encoder(features, path, precision, weights)


def _show(report: ExportReport, encoder: EncoderReport | None) -> None:
    size = f"{report.horizon} steps of {report.num_actions} actions"
    out.print(f"{report.planner}, {size}, {_megabytes(report.num_bytes)} -> {report.path}")
    for what, ports in (("in", report.inputs), ("out", report.outputs)):
        for name, port in ports.items():
            out.print(f"  {what:<4} {name:<18} {_shape(port)}")
    out.print(f"  scores differ from those of torch by at most {report.max_difference:.1e}")
    if encoder is not None:
        precision = f"{encoder.name} in {encoder.precision}"
        out.print(f"{precision}, {_megabytes(encoder.num_bytes)} -> {encoder.path}")
        out.print(f"  cosine of its features with those of torch: at least {encoder.min_cosine:.4f}")


def _shape(port: Port) -> str:
    sizes = ", ".join("any" if size is None else str(size) for size in port.shape)
    return f"{port.dtype} ({sizes})"


def _megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
