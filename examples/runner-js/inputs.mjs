// What the caller gives: the sizes behind names, and whether all of it fits.

import { evaluate, isName, refuse } from "./sizes.mjs";
import { bytesOf } from "./types.mjs";

const MOST_ELEMENTS = 2 ** 31 - 1;

// The elements of a buffer.
export function elements({ name, shape }, sizes) {
  const count = shape.reduce((product, size) => product * evaluate(size, sizes), 1);
  return count <= MOST_ELEMENTS ? count : refuse(`${name} has more than ${MOST_ELEMENTS} elements`);
}

// The sizes behind names, from the inputs; whatever does not fit is refused.
export function readInputs(f, given) {
  const sizes = new Map();
  const inputs = f.buffers.filter((b) => b.kind === "input" || b.kind === "scalar");
  const settle = (size, number, place) => {
    if (!Number.isInteger(number) || number < 0 || number > MOST_ELEMENTS)
      refuse(`${place}: ${number} is no number from 0 to ${MOST_ELEMENTS}`);
    if ((sizes.get(size) ?? number) !== number)
      refuse(`${place}: ${size} is ${number}, and was ${sizes.get(size)}`);
    sizes.set(size, number);
  };
  for (const name of given.keys()) {
    if (!inputs.some((b) => b.name === name)) refuse(`there is no input ${name}`);
  }
  for (const { name, kind, type, shape } of inputs) {
    const value = given.get(name) ?? refuse(`${name} is not given`);
    if (kind === "scalar") {
      settle(name, value, name);
      continue;
    }
    if (value.type !== type || value.shape?.length !== shape.length)
      refuse(`${name} holds ${value.type} of [${value.shape}], not ${type} of [${shape}]`);
    shape.forEach((size, axis) => isName(size) && settle(size, value.shape[axis], name));
  }
  for (const record of inputs.filter((b) => b.kind === "input")) {
    const shape = record.shape.map((size) => evaluate(size, sizes));
    const value = given.get(record.name);
    if (shape.some((size, axis) => size !== value.shape[axis]))
      refuse(`${record.name} has another shape than the program's [${shape}]`);
    const bytes = elements(record, sizes) * bytesOf(record.type);
    if (value.data.length !== bytes)
      refuse(`${record.name} has ${value.data.length} bytes, not ${bytes}`);
  }
  for (const { left, right, because } of f.equal ?? []) {
    const [a, b] = [left, right].map((size) => evaluate(size, sizes));
    if (a !== b) refuse(`sizes do not fit: ${left} is ${a} and ${right} is ${b}: ${because}`);
  }
  for (const { size, most, because } of f.limits ?? []) {
    const [a, b] = [size, most].map((bound) => evaluate(bound, sizes));
    if (a > b) refuse(`a size is too large: ${size} is ${a}, and at most ${b}: ${because}`);
  }
  return sizes;
}
