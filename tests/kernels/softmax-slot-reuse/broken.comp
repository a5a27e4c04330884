#version 450
// Softmax of each row of 64, one workgroup a row.
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Rows { float rows[]; };

shared float slots[64];

float reduce(float value, bool maximum) {
    uint lane = gl_LocalInvocationID.x;
    slots[lane] = value;
    barrier();
    for (uint stride = 32; stride > 0; stride /= 2) {
        if (lane < stride) {
            float other = slots[lane + stride];
            slots[lane] = maximum ? max(slots[lane], other) : slots[lane] + other;
        }
        barrier();
    }
    float result = slots[0];
    return result;
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = rows[i];
    float e = exp(x - reduce(x, true));
    rows[i] = e / reduce(e, false);
}
