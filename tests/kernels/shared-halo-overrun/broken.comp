#version 450
// A 5-point filter of blocks of 64, with a halo of 2 on each side and weights in shared memory.
layout(local_size_x = 64) in;
layout(push_constant) uniform Sizes { uint n; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

shared struct {
    float tile[64 + 2];
    float weights[5];
} stage;

float at(int i) {
    return x[clamp(i, 0, int(n) - 1)];
}

void main() {
    int i = int(gl_GlobalInvocationID.x), lane = int(gl_LocalInvocationID.x);
    stage.tile[lane + 2] = at(i);
    if (lane < 2) {
        stage.tile[lane] = at(i - 2);
        stage.tile[lane + 66] = at(i + 64);
    }
    barrier();
    if (lane < 5)
        stage.weights[lane] = lane == 2 ? 0.5 : 0.125;
    barrier();
    float sum = 0.0;
    for (int k = 0; k < 5; ++k)
        sum += stage.weights[k] * stage.tile[lane + k];
    y[i] = sum;
}
