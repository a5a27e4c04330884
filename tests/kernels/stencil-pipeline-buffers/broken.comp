#version 450
// Vertical 3-point average over the rows of an image, 32 columns a workgroup.
layout(local_size_x = 32) in;
layout(push_constant) uniform Sizes { uint height; uint width; };
layout(std430, binding = 0) readonly buffer Image { float image[]; };
layout(std430, binding = 1) writeonly buffer Smooth { float smoothed[]; };

const uint ROWS = 3;
shared float rows[ROWS][32 + 2];

void fetch(uint y) {
    uint lane = gl_LocalInvocationID.x;
    int x = int(gl_GlobalInvocationID.x);
    rows[y % ROWS][lane + 1] = image[y * width + uint(x)];
    if (lane == 0)
        rows[y % ROWS][0] = image[y * width + uint(max(x - 1, 0))];
    if (lane == 31)
        rows[y % ROWS][33] = image[y * width + min(uint(x) + 1, width - 1)];
}

void main() {
    uint lane = gl_LocalInvocationID.x;
    fetch(0);
    fetch(1);
    barrier();
    for (uint y = 1; y + 1 < height; ++y) {
        fetch(y + 1);
        barrier();
        float sum = 0.0;
        for (uint i = 0; i < 3; ++i)
            sum += rows[(y + i - 1) % ROWS][lane] + rows[(y + i - 1) % ROWS][lane + 2];
        smoothed[y * width + gl_GlobalInvocationID.x] = sum / 6.0;
    }
}
