"""Planners and encoders as ONNX files."""

from p3iv.errors import require_modules

require_modules(["onnx", "onnxruntime"], "onnx", "Exporting a planner")
