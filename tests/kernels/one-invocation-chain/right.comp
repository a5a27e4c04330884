#version 450
// The first invocation copies a number through global, shared and private memory.
layout(local_size_x = 5) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Scratch { float scratch; };
layout(std430, binding = 2) writeonly buffer Output { float y; };

shared float stage;

void main() {
    float kept;
    for (int i = 0; i < 2; ++i) {
        if (gl_LocalInvocationID.x == 0) {
            scratch = x[gl_GlobalInvocationID.x];
            stage = scratch;
        }
    }
    if (gl_LocalInvocationID.x == 0)
        kept = stage;
    if (gl_LocalInvocationID.x == 0)
        y = kept;
}
