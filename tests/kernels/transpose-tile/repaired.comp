#version 450
// Transposes a matrix in tiles of 16 x 16 with a padded row, 16 x 4 invocations a tile.
layout(local_size_x = 16, local_size_y = 4) in;
layout(push_constant) uniform Sizes { uint rows; uint columns; };
layout(std430, binding = 0) readonly buffer Input { float x[]; };
layout(std430, binding = 1) writeonly buffer Output { float y[]; };

shared float tile[16][17];

void main() {
    uvec2 base = gl_WorkGroupID.xy * 16;
    uvec2 lane = gl_LocalInvocationID.xy;
    for (uint k = lane.y; k < 16; k += 4)
        tile[k][lane.x] = x[(base.y + k) * columns + base.x + lane.x];
    barrier();
    for (uint k = lane.y; k < 16; k += 4)
        y[(base.x + k) * rows + base.y + lane.x] = tile[lane.x][k];
}
