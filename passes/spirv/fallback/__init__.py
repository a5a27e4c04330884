"""
Passes that rewrite an extension's instructions with features that every Vulkan 1.2 device has.
"""
