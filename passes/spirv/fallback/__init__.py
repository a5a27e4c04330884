"""Passes that write an extension's instructions in terms of what every Vulkan 1.2 device has."""
