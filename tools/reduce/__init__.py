"""`xdsl-spirv reduce`: finds the smallest kernel, launch or model that still fails."""
