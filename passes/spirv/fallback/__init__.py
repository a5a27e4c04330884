"""Replaces instructions of extensions by code that every Vulkan 1.2 device can run."""
