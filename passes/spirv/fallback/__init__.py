"""Passes that write an extension's instructions in terms of features of every Vulkan 1.2 device."""
