#version 450
// Divides each row of 4 by its length.
layout(local_size_x = 8) in;
layout(std430, binding = 0) buffer Rows { vec4 rows[]; };

void main() {
    uint i = gl_GlobalInvocationID.x;
    vec4 row = rows[i];
    float square = dot(row, row);
    rows[i] = row * inversesqrt(square);
}
