#version 460
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  uint c;
  uint s = uaddCarry(a[i], a[i+1], c);
  o[i*8]=s;
  o[i*8+1]=c;
  s = usubBorrow(a[i], a[i+1], c);
  o[i*8+2]=s;
  o[i*8+3]=c;
  uint m,l;
  umulExtended(a[i],a[i+2],m,l);
  o[i*8+4]=m;
  o[i*8+5]=l;
  int mm,ll;
  imulExtended(int(a[i]),int(a[i+2]),mm,ll);
  o[i*8+6]=uint(mm);
  o[i*8+7]=uint(ll);
  uvec2 c2;
  uvec2 s2 = uaddCarry(uvec2(a[i],a[i+3]), uvec2(a[i+1]), c2);
  o[i+1024] = s2.x+c2.y;
  ivec3 h3,l3;
  imulExtended(ivec3(a[i]),ivec3(a[i+5]),h3,l3);
  o[i+1100]=uint(h3.z+l3.y);
}
