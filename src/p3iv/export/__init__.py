"""Planners and encoders as ONNX files."""
