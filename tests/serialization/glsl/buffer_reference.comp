#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 32) in;
layout(buffer_reference) buffer Node;
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Node {
  Node next;
  f16vec3 value;
  int64_t count;
};
layout(push_constant) uniform P { Node first; uint64_t raw; };
void main() {
  Node node = first;
  for (int i = 0; i < 4; ++i) {
    node.value *= float16_t(0.1);
    node.count += 0x123456789abcdefL;
    node = node.next;
  }
  Node(raw)[gl_GlobalInvocationID.x].count = -1L;
}
