"""The meaning of the host function: tensors are plain numpy arrays."""
