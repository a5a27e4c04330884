"""The meaning of the `spirv` dialect: each file stands for the file of that name in the dialect."""
