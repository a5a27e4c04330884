"""Runs ggml's Vulkan shaders from a checkout: modules, block formats, launches and references."""
