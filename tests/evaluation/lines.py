"""Prediction files made of tensors."""

from __future__ import annotations

from pathlib import Path

from p3iv.data.padding import unpad_plans
from p3iv.evaluation.predictions import PredictionLine, Predictions, prediction_writer


def write_predictions(path: Path, predictions: Predictions) -> Path:
    """Write one line per window, with ids."""
    chosen, right = unpad_plans(predictions.plans), unpad_plans(predictions.references)
    with prediction_writer(path) as write:
        for number, window in enumerate(predictions.windows):
            samples = None
            if predictions.samples is not None:
                plans, counts = predictions.samples.rows(number)
                samples = tuple(zip(unpad_plans(plans), counts.tolist(), strict=True))
            write(
                PredictionLine[int | str](
                    window=window,
                    video=None if predictions.videos is None else predictions.videos[number],
                    plan=chosen[number],
                    reference=right[number],
                    samples=samples,
                )
            )
    return path
