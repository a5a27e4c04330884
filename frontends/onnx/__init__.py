"""Converts ONNX to `linalg` on tensors with xDSL's builders."""
