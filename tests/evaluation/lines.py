"""Prediction files made of tensors."""

from __future__ import annotations

from pathlib import Path

from p3iv.evaluation.predictions import PredictionLine, Predictions, prediction_writer


def write_predictions(path: Path, predictions: Predictions) -> Path:
    """Write one line per window, with ids."""
    with prediction_writer(path) as write:
        for number, window in enumerate(predictions.windows):
            samples = None
            if predictions.samples is not None:
                plans, counts = predictions.samples.rows(number)
                samples = tuple(zip(map(tuple, plans.tolist()), counts.tolist(), strict=True))
            write(
                PredictionLine[int | str](
                    window=window,
                    video=None if predictions.videos is None else predictions.videos[number],
                    plan=tuple(predictions.plans[number].tolist()),
                    reference=tuple(predictions.references[number].tolist()),
                    samples=samples,
                )
            )
    return path
