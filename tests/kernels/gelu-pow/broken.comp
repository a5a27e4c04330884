#version 450
// GELU, by tanh.
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Values { float values[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = values[i];
    float cube = pow(x, 3.0);
    values[i] = 0.5 * x * (1.0 + tanh(0.79788456 * (x + 0.044715 * cube)));
}
