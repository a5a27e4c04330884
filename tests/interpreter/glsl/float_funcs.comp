#version 460
// tolerance: 2e-4
layout(local_size_x = 32) in;
layout(binding=0, std430) readonly buffer In {
  uint a[];
};
layout(binding=1, std430) buffer Out {
  uint o[];
};
void main() {
  uint i = gl_GlobalInvocationID.x;
  float x = float(a[i] & 1023u) / 64.0 - 4.0, y = float(a[i+1] & 255u) / 16.0 + 0.5;
  uint n = i * 40;
  o[n]=floatBitsToUint(floor(x));
  o[n+1]=floatBitsToUint(fract(x));
  o[n+2]=floatBitsToUint(mod(x,y));
  o[n+3]=floatBitsToUint(sign(x));
  o[n+4]=floatBitsToUint(roundEven(x));
  o[n+5]=floatBitsToUint(clamp(x,-1.0,1.0));
  o[n+6]=floatBitsToUint(mix(x,y,0.25));
  o[n+7]=floatBitsToUint(step(x,y));
  o[n+8]=floatBitsToUint(smoothstep(-4.0,12.0,x));
  o[n+9]=floatBitsToUint(fma(x,y,1.0));
  float ip;
  o[n+10]=floatBitsToUint(modf(x,ip));
  o[n+11]=floatBitsToUint(ip);
  int e;
  o[n+12]=floatBitsToUint(frexp(y,e));
  o[n+13]=uint(e);
  o[n+14]=floatBitsToUint(ldexp(y,3));
  o[n+15]=floatBitsToUint(sqrt(y));
  o[n+16]=floatBitsToUint(length(vec3(x,y,1)));
  o[n+17]=floatBitsToUint(dot(vec2(x,y),vec2(y,x)));
  o[n+18]=floatBitsToUint(cross(vec3(x,y,1),vec3(1,2,x)).z);
  o[n+19]=floatBitsToUint(pow(y,1.5));
  o[n+20]=floatBitsToUint(exp2(x));
  o[n+21]=floatBitsToUint(atan(y,x));
  o[n+22]=uint(isnan(x/0.0))+2u*uint(isinf(1.0/x));
  o[n+23]=floatBitsToUint(trunc(x)+ceil(y)+round(y+0.1));
  o[n+24]=floatBitsToUint(reflect(vec2(x,y),vec2(0,1)).y+faceforward(vec2(x,y),vec2(1),vec2(2)).x);
  o[n+25]=floatBitsToUint(normalize(vec2(x,y)).x+distance(vec2(x),vec2(y)));
  o[n+26]=floatBitsToUint(refract(normalize(vec2(x,y)),vec2(0,1),0.5).x);
  o[n+27]=floatBitsToUint(min(x,y)+max(x,3.0)+abs(x));
  o[n+28]=floatBitsToUint(float(double(x)*double(y)));
  o[n+29]=floatBitsToUint(sin(x)+cos(y)+tan(0.5)+asin(0.1)+acos(0.2)+sinh(0.3)+exp(x*0.1)+log(y)+log2(y)+inversesqrt(y)+radians(x)+degrees(y));
  o[n+30]=uint(any(lessThan(vec2(x,y),vec2(1))))+uint(all(greaterThanEqual(vec2(x,y),vec2(0))))+uint(not(bvec2(x>1,y>1)).x);
  vec2 mf;
  o[n+31] = floatBitsToUint((modf(vec2(x,y),mf)+mf).y);
  ivec3 e3;
  o[n+32] = floatBitsToUint(frexp(vec3(x,y,1),e3).x)+uint(e3.z);
}
