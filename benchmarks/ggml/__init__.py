"""ggml's Vulkan shaders, driven from a checkout: their list, their formats, their launches."""
