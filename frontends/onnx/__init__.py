"""ONNX to `linalg` on tensors, with xDSL's builders, in this process."""
