#version 460
#extension GL_EXT_samplerless_texture_functions : require
#extension GL_EXT_nonuniform_qualifier : require
layout(local_size_x = 8, local_size_y = 8) in;
layout(set = 0, binding = 0, rgba16f) writeonly uniform image2D target;
layout(set = 0, binding = 1) uniform sampler2DArray source[];
layout(set = 0, binding = 2) uniform texture2D plain;
void main() {
  ivec2 at = ivec2(gl_GlobalInvocationID.xy);
  vec4 texel = textureLodOffset(source[nonuniformEXT(at.x)], vec3(at, 1), 0.5, ivec2(1, -1));
  texel += textureGather(source[0], vec3(0.5), 2) + texelFetch(plain, at, 0);
  texel += textureGrad(source[1], vec3(0.25), vec2(1), vec2(2));
  imageStore(target, at, texel / float(imageSize(target).x));
}
