#version 450
// Picks one of each vector's components.
layout(local_size_x = 32) in;
layout(std430, binding = 0) readonly buffer Vectors { vec4 vectors[]; };
layout(std430, binding = 1) readonly buffer Indices { uint indices[]; };
layout(std430, binding = 2) writeonly buffer Output { float y[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    vec4 v = vectors[i] * 2.0;
    y[i] = v[indices[i] & 3u];
}
