"""Runs host functions: tensors are plain numpy arrays."""
