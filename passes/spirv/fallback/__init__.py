"""Rewrites instructions of extensions with features that every Vulkan 1.2 device has."""
