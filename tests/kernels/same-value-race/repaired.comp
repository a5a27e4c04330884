#version 450
// Is any number negative?
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) buffer Result { uint any_negative; };

void main() {
    if (x[gl_GlobalInvocationID.x] < 0.0)
        atomicOr(any_negative, 1u);
}
