// Element types: their bytes, the names that numpy's files have for them, and numbers as bytes.

import { refuse } from "./sizes.mjs";

const NUMPY = {
  f16: ["<f2"],
  f32: ["<f4"],
  f64: ["<f8"],
  bf16: ["|V2", "<V2"],
  i1: ["|b1"],
  i8: ["|i1", "|u1"],
  i16: ["<i2", "<u2"],
  i32: ["<i4", "<u4"],
  i64: ["<i8", "<u8"],
  ui8: ["|u1"],
  ui16: ["<u2"],
  ui32: ["<u4"],
  ui64: ["<u8"],
};
const IN_BYTES =
  "f8E4M3FN f8E5M2 f8E4M3FNUZ f8E5M2FNUZ f8E8M0FNU f6E2M3FN f6E3M2FN f4E2M1FN i4 ui4 i2 ui2";
for (const type of IN_BYTES.split(" ")) NUMPY[type] = ["|u1", "|i1", "|V1"];

export const numpyNames = (type) =>
  Object.hasOwn(NUMPY, type) ? NUMPY[type] : refuse(`the type ${type} is not known`);

export const bytesOf = (type) => Number(numpyNames(type)[0].slice(2));

const SMALL_FLOATS = { f16: { fraction: 10, least: -14 }, bf16: { fraction: 7, least: -126 } };

// The bits of the nearest number of a small type, ties to even.
function smallFloat(value, { fraction, least }) {
  const size = Math.abs(value);
  const exponent = size ? Math.max(Math.floor(Math.log2(size)), least) : least;
  const steps = size / 2 ** (exponent - fraction);
  const whole = Math.floor(steps);
  const up = steps - whole > 0.5 || (steps - whole === 0.5 && whole % 2);
  const infinity = (3 - 2 * least) * 2 ** fraction;
  const bits = Math.min((exponent - least) * 2 ** fraction + whole + (up ? 1 : 0), infinity);
  return bits + (value < 0 || Object.is(value, -0) ? 0x8000 : 0);
}

// A number as an element of a type; `i1` takes a byte.
export function encode(value, type) {
  const bytes = bytesOf(type);
  const view = new DataView(new ArrayBuffer(bytes));
  if (type === "f64") view.setFloat64(0, value, true);
  else if (type === "f32") view.setFloat32(0, value, true);
  else if (type in SMALL_FLOATS) view.setUint16(0, smallFloat(value, SMALL_FLOATS[type]), true);
  else if (/^f/.test(type) && value !== 0) refuse(`${value} as ${type} is not known`);
  else if (bytes === 8) view.setBigInt64(0, BigInt(value), true);
  else if (bytes === 4) view.setInt32(0, value, true);
  else if (bytes === 2) view.setInt16(0, value, true);
  else view.setInt8(0, value);
  return new Uint8Array(view.buffer);
}
