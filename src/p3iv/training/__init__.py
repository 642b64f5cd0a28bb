"""Training that can be trusted: resumable to the last bit, one process or many."""

from p3iv.training.loop import TrainRequest, TrainResult, train

__all__ = ["TrainRequest", "TrainResult", "train"]
