// Says in other instructions of SPIR-V what naga does not write as WGSL, or writes wrongly: IsNan and
// IsInf, bitcasts between a word and two f16, and constants that are infinite or NaN. They become
// tests of bits, (un)packing, and values that are loaded from a variable, since WGSL has no literals
// for them. Integers get the sign that an instruction reads them with, as WGSL goes by types alone
// and naga does not always say it. A value of many steps is kept in a variable on the way: naga would
// write it as one expression, and Dawn reads no more than 128 parentheses within each other.
// Offsets and strides, which naga's WGSL does not say, have to be those that WGSL would choose; only
// push constants may lie elsewhere, since whoever pushes them can follow.

import { refuse } from "./sizes.mjs";

const OP = {
  ExtInstImport: 11,
  ExtInst: 12,
  MemoryModel: 14,
  TypeBool: 20,
  TypeInt: 21,
  TypeFloat: 22,
  TypeVector: 23,
  TypeArray: 28,
  TypeRuntimeArray: 29,
  TypeStruct: 30,
  TypePointer: 32,
  Constant: 43,
  ConstantComposite: 44,
  Function: 54,
  Variable: 59,
  Load: 61,
  Store: 62,
  CompositeConstruct: 80,
  CompositeExtract: 81,
  FConvert: 115,
  Bitcast: 124,
  IsNan: 156,
  IsInf: 157,
  IEqual: 170,
  UGreaterThan: 172,
  Decorate: 71,
  MemberDecorate: 72,
  Select: 169,
  ULessThan: 176,
  BitwiseAnd: 199,
  Phi: 245,
  Label: 248,
};
const TYPES = [19, 39]; // the first and the last opcode that declares a type
const [PRIVATE, FUNCTION] = [6, 7];
const MOST_STEPS = 24;
const PUSH_CONSTANT = 9;
const [ARRAY_STRIDE, OFFSET] = [6, 35];
const HEADER_WORDS = 5;
const HALF = 0xffff;
const MOST_OPERANDS = 3;

// The operands that instructions read as integers with a sign, or without one, by opcode, and of those
// with a result in `opcode: [count, isSigned]`; the integers that they return are of the same kind.
const SIGNS = {
  109: [0, 0],
  110: [0, 1],
  111: [1, 1],
  112: [1, 0],
  113: [1, 0],
  114: [1, 1],
  126: [1, 1],
  134: [2, 0],
  135: [2, 1],
  137: [2, 0],
  138: [2, 1],

  172: [2, 0],
  173: [2, 1],
  174: [2, 0],
  175: [2, 1],
  176: [2, 0],
  177: [2, 1],
  178: [2, 0],
  179: [2, 1],
  194: [1, 0],
  195: [1, 1],
  202: [1, 1],
  203: [1, 0],
};
// The same of GLSL.std.450's instructions.
const SIGNS_OF_SET = {
  5: 1,
  7: 1,
  38: 0,
  39: 1,
  41: 0,
  42: 1,
  44: 0,
  45: 1,
  74: 1,
  75: 0,
};
// The same of operations of subgroups, whose value stands behind scope and operation, and of atomics.
const SIGNS_OF_GROUPS = { 353: 1, 354: 0, 356: 1, 357: 0 };
const SIGNS_OF_ATOMICS = { 236: 1, 237: 0, 238: 1, 239: 0 };
const SMOD = 139;
const PAIRS = { 149: "sum", 150: "difference", 151: "product" }; // IAddCarry, ISubBorrow, UMulExtended
const SET = "GLSL.std.450";
const [PACK_HALF, UNPACK_HALF] = [58, 62];
const [MAGNITUDE, INFINITY] = [0x7fffffff, 0x7f800000];
const INFINITE = { 16: 0x7c00, 32: 0x7f800000 };

// `{ binary, places }`: the module, and the place of each push constant by its offset.
export function legalize(bytes) {
  const module = new Module(new Uint32Array(Uint8Array.from(bytes).buffer));
  const binary = new Uint8Array(module.legal().buffer);
  return { binary, places: module.places };
}

const text = (value) => {
  const bytes = new Uint8Array(Math.ceil((value.length + 1) / 4) * 4);
  bytes.set(new TextEncoder().encode(value));
  return [...new Uint32Array(bytes.buffer)];
};

class Module {
  constructor(words) {
    this.header = words.slice(0, HEADER_WORDS);
    this.bound = words[3];
    this.instructions = [];
    for (let at = HEADER_WORDS; at < words.length; at += words[at] >>> 16) {
      if (!(words[at] >>> 16)) break; // damaged: naga says so
      this.instructions.push([
        words[at] & 0xffff,
        ...words.subarray(at + 1, at + (words[at] >>> 16)),
      ]);
    }
    this.constants = new Map(); // constant -> its first word
    this.types = new Map(); // id -> [opcode, ...operands]
    this.typeOf = new Map(); // value -> type
    this.declared = []; // new types, constants and variables
    this.keys = new Map(); // what is declared -> its id
    this.moved = []; // constants that the function computes
    this.steps = new Map(); // value -> the instructions on the longest way to it
    this.variables = []; // of the function
    this.strides = new Map(); // array -> bytes
    this.offsets = new Map(); // structure -> offsets by member
    this.places = new Map(); // offset of a push constant -> its place
  }

  id() {
    return this.bound++;
  }

  // The id of a type or constant, declared once.
  global(opcode, ...operands) {
    const key = [opcode, ...operands].join(" ");
    if (!this.keys.has(key)) {
      const id = this.id();
      this.keys.set(key, id);
      const isType = opcode >= TYPES[0] && opcode <= TYPES[1];
      this.declared.push(
        isType ? [opcode, id, ...operands] : [opcode, operands[0], id, ...operands.slice(1)],
      );
    }
    return this.keys.get(key);
  }

  vector(element, count) {
    return count === 1 ? element : this.global(OP.TypeVector, element, count);
  }

  u32 = (count = 1) => this.vector(this.global(OP.TypeInt, 32, 0), count);
  f32 = (count = 1) => this.vector(this.global(OP.TypeFloat, 32), count);

  word(value, count) {
    const one = this.global(OP.Constant, this.u32(), value);
    return count === 1
      ? one
      : this.global(OP.ConstantComposite, this.u32(count), ...Array(count).fill(one));
  }

  // The element of a type of numbers: `{ opcode, width, count }`; undefined of others.
  shape(type) {
    const [opcode, ...operands] = this.types.get(type) ?? [];
    if (opcode === OP.TypeVector) return { ...this.shape(operands[0]), count: operands[1] };
    if (opcode === OP.TypeInt || opcode === OP.TypeFloat) {
      return { opcode, width: operands[0], isSigned: operands[1], count: 1 };
    }
    return undefined;
  }

  legal() {
    const isOneFunction =
      this.instructions.filter(([opcode]) => opcode === OP.Function).length === 1;
    const result = [];
    for (const instruction of this.instructions) {
      const [opcode, ...operands] = instruction;
      if (opcode >= TYPES[0] && opcode <= TYPES[1]) this.declareType(opcode, operands);
      else if (opcode === OP.Decorate) this.noteStride(operands);
      else if (opcode === OP.MemberDecorate) this.noteOffset(operands);
      else if (this.types.has(operands[0])) this.typeOf.set(operands[1], operands[0]);
      if (opcode === OP.Constant) this.constants.set(operands[1], operands[2]);
      if (isOneFunction && this.isUnspeakable(opcode, operands)) this.moved.push(instruction);
      else if (isOneFunction && this.isLong(opcode, operands))
        result.push(...this.kept(instruction));
      else result.push(...(this.rewrite(opcode, operands) ?? [instruction]));
    }
    return this.encode(this.withMoved(result));
  }

  noteStride([id, decoration, stride]) {
    if (decoration === ARRAY_STRIDE) this.strides.set(id, stride);
  }

  noteOffset([id, member, decoration, offset]) {
    if (decoration !== OFFSET) return;
    if (!this.offsets.has(id)) this.offsets.set(id, new Map());
    this.offsets.get(id).set(member, offset);
  }

  // Types of memory that others see have the layout that WGSL gives them, or are push constants.
  declareType(opcode, [id, ...operands]) {
    this.types.set(id, [opcode, ...operands]);
    if (opcode !== OP.TypePointer) return;
    const [storage, type] = operands;
    if (!this.offsets.has(type)) return;
    const { members } = this.layout(type);
    for (const [member, offset] of this.offsets.get(type)) {
      if (storage === PUSH_CONSTANT) this.places.set(offset, members[member]);
      else if (offset !== members[member]) refuse("a block has gaps that WGSL does not leave");
    }
  }

  // What WGSL makes of a type: `{ size, align }`, and of structures the offsets of their `members`.
  layout(type) {
    const [opcode, ...operands] = this.types.get(type);
    if (opcode === OP.TypeStruct) return this.layoutOfMembers(operands);
    if (opcode === OP.TypeArray || opcode === OP.TypeRuntimeArray) {
      const { size, align } = this.layout(operands[0]);
      const stride = Math.ceil(size / align) * align;
      if ((this.strides.get(type) ?? stride) !== stride)
        refuse("an array has gaps that WGSL does not leave");
      const count = opcode === OP.TypeArray ? this.constants.get(operands[1]) : 0;
      return { size: stride * count, align };
    }
    const { width, count } =
      this.shape(type) ?? refuse("a block has members that WGSL does not know");
    return { size: (width / 8) * count, align: (width / 8) * (count === 3 ? 4 : count) };
  }

  layoutOfMembers(types) {
    const members = [];
    let [end, most] = [0, 1];
    for (const { size, align } of types.map((type) => this.layout(type))) {
      members.push(Math.ceil(end / align) * align);
      end = members.at(-1) + size;
      most = Math.max(most, align);
    }
    return { size: Math.ceil(end / most) * most, align: most, members };
  }

  isUnspeakable(opcode, [type, , ...operands]) {
    if (opcode === OP.ConstantComposite) {
      return this.moved.some(([, , id]) => operands.includes(id));
    }
    const { opcode: kind, width } = this.shape(type) ?? {};
    const infinite = INFINITE[width];
    return (
      opcode === OP.Constant &&
      kind === OP.TypeFloat &&
      infinite &&
      (operands[0] & infinite) === infinite
    );
  }

  // Counts the steps to a value, from the last one that is in a variable.
  isLong(opcode, [type, result, ...operands]) {
    if (this.typeOf.get(result) !== type || [OP.Load, OP.Phi].includes(opcode)) return false;
    const steps = 1 + Math.max(0, ...operands.map((operand) => this.steps.get(operand) ?? 0));
    const isLong = steps > MOST_STEPS && this.shape(type) !== undefined;
    this.steps.set(result, isLong ? 0 : steps);
    return isLong;
  }

  kept([opcode, type, result, ...operands]) {
    const [value, variable] = [this.id(), this.id()];
    this.variables.push([
      OP.Variable,
      this.global(OP.TypePointer, FUNCTION, type),
      variable,
      FUNCTION,
    ]);
    this.typeOf.set(value, type);
    const instruction = [opcode, type, value, ...operands];
    const computed = this.rewrite(opcode, instruction.slice(1)) ?? [instruction];
    return [...computed, [OP.Store, variable, value], [OP.Load, type, result, variable]];
  }

  rewrite(opcode, operands) {
    const [type, result, operand] = operands;
    if (opcode in SIGNS) return this.signed(opcode, operands, 2, ...SIGNS[opcode]);
    if (opcode === OP.ExtInst && operand === this.set() && operands[3] in SIGNS_OF_SET) {
      return this.signed(opcode, operands, 4, MOST_OPERANDS, SIGNS_OF_SET[operands[3]]);
    }
    const shape = this.shape(this.typeOf.get(operand));
    if (opcode === OP.IsNan || opcode === OP.IsInf) {
      return shape.width === 64 ? null : this.test(opcode, type, result, operand, shape);
    }
    if (opcode in SIGNS_OF_GROUPS)
      return this.signed(opcode, operands, 4, 1, SIGNS_OF_GROUPS[opcode]);
    if (opcode in PAIRS) return this.pair(PAIRS[opcode], ...operands);
    if (opcode === SMOD) refuse("naga takes OpSMod for OpSRem");
    if (opcode in SIGNS_OF_ATOMICS && this.shape(type)?.isSigned !== SIGNS_OF_ATOMICS[opcode]) {
      refuse("an atomic operation reads integers with another sign than their type has");
    }
    if (opcode !== OP.Bitcast || !shape) return null;
    const { width, count } = this.shape(type) ?? {};
    if (width === 16 && count === 2 && shape.width === 32)
      return this.unpack(type, result, operand);
    if (width === 32 && count === 1 && shape.width === 16) return this.pack(type, result, operand);
    return null;
  }

  // An instruction whose operands, `count` of them from `first` on, and whose result have a sign or not.
  signed(opcode, operands, first, count, isSigned) {
    const before = [];
    const cast = operands.map((operand, at) => {
      const type = this.withSign(this.typeOf.get(operand), isSigned);
      if (at < first || at >= first + count || type === null) return operand;
      before.push([OP.Bitcast, type, this.id(), operand]);
      return before.at(-1)[2];
    });
    const [type, result] = operands;
    const own = this.withSign(type, isSigned);
    if (own === null) return [...before, [opcode, ...cast]];
    const value = this.id();
    return [...before, [opcode, own, value, ...cast.slice(2)], [OP.Bitcast, type, result, value]];
  }

  // A word and its carry, borrow or upper half, of words.
  pair(kind, type, result, left, right) {
    const { count } = this.shape(this.typeOf.get(left));
    const u32 = this.u32(count);
    const bool = this.vector(this.global(OP.TypeBool), count);
    const all = [];
    const emit = (opcode, type, ...operands) => {
      all.push([opcode, type, this.id(), ...operands]);
      return all.at(-1)[2];
    };
    const on = (opcode) => (a, b) => emit(opcode, u32, a, b);
    const [add, subtract, multiply, shift, and] = [128, 130, 132, 194, 199].map(on);
    const [a, b] = [left, right].map((operand) => emit(OP.Bitcast, u32, operand));
    const isLess = (a, b) => {
      const less = emit(OP.ULessThan, bool, a, b);
      return emit(OP.Select, u32, less, this.word(1, count), this.word(0, count));
    };
    const upper = () => {
      const half = this.word(HALF, count);
      const low = (word) => and(word, half);
      const high = (word) => shift(word, this.word(16, count));
      const crossed = [multiply(low(a), high(b)), multiply(high(a), low(b))];
      const middle = [high(multiply(low(a), low(b))), ...crossed.map(low)].reduce((x, y) =>
        add(x, y),
      );
      return [multiply(high(a), high(b)), ...crossed.map(high), high(middle)].reduce((x, y) =>
        add(x, y),
      );
    };
    const word = { sum: add, difference: subtract, product: multiply }[kind](a, b);
    const other = { sum: () => isLess(word, a), difference: () => isLess(a, b), product: upper }[
      kind
    ]();
    const [, element] = this.types.get(type);
    const own = [word, other].map((value) => emit(OP.Bitcast, element, value));
    return [...all, [OP.CompositeConstruct, type, result, ...own]];
  }

  // The type like another of integers, with the other sign; null if there is nothing to change.
  withSign(type, isSigned) {
    const { opcode, width, count, ...shape } = this.shape(type) ?? {};
    if (opcode !== OP.TypeInt || shape.isSigned === isSigned) return null;
    return this.vector(this.global(OP.TypeInt, width, isSigned), count);
  }

  test(opcode, type, result, operand, { width, count }) {
    const [wide, bits, size] = [this.id(), this.id(), this.id()];
    return [
      ...(width === 32 ? [] : [[OP.FConvert, this.f32(count), wide, operand]]),
      [OP.Bitcast, this.u32(count), bits, width === 32 ? operand : wide],
      [OP.BitwiseAnd, this.u32(count), size, bits, this.word(MAGNITUDE, count)],
      [
        opcode === OP.IsNan ? OP.UGreaterThan : OP.IEqual,
        type,
        result,
        size,
        this.word(INFINITY, count),
      ],
    ];
  }

  unpack(type, result, operand) {
    const [word, pair] = [this.id(), this.id()];
    return [
      [OP.Bitcast, this.u32(), word, operand],
      [OP.ExtInst, this.f32(2), pair, this.set(), UNPACK_HALF, word],
      [OP.FConvert, type, result, pair],
    ];
  }

  pack(type, result, operand) {
    const [pair, word] = [this.id(), this.id()];
    return [
      [OP.FConvert, this.f32(2), pair, operand],
      [OP.ExtInst, this.u32(), word, this.set(), PACK_HALF, pair],
      [OP.Bitcast, type, result, word],
    ];
  }

  // The id of the instruction set that is imported already, or is to be.
  set() {
    const known = this.instructions.find(([opcode]) => opcode === OP.ExtInstImport);
    return known ? known[1] : (this.imported ??= this.id());
  }

  // The instructions that compute a constant from a variable, under the constant's own id.
  compute([opcode, type, result, ...operands]) {
    if (opcode === OP.ConstantComposite)
      return [[OP.CompositeConstruct, type, result, ...operands]];
    const pointer = this.global(OP.TypePointer, PRIVATE, this.u32());
    const variable = this.global(OP.Variable, pointer, PRIVATE, this.word(operands[0], 1));
    const word = this.id();
    const load = [OP.Load, this.u32(), word, variable];
    if (this.shape(type).width === 32) return [load, [OP.Bitcast, type, result, word]];
    const [pair, first] = [this.id(), this.id()];
    return [
      load,
      [OP.ExtInst, this.f32(2), pair, this.set(), UNPACK_HALF, word],
      [OP.CompositeExtract, this.f32(), first, pair, 0],
      [OP.FConvert, type, result, first],
    ];
  }

  // The module with what is new: declarations before the function, moved constants at its start.
  withMoved(instructions) {
    const computed = this.moved.flatMap((constant) => this.compute(constant));
    const start = instructions.findIndex(([opcode]) => opcode === OP.Function);
    const label = instructions.findIndex(([opcode], at) => at > start && opcode === OP.Label);
    if (start < 0 || label < 0) return instructions;
    let body = label + 1;
    while (instructions[body]?.[0] === OP.Variable) body += 1;
    const all = [
      ...instructions.slice(0, start),
      ...this.declared,
      ...instructions.slice(start, body),
      ...this.variables,
      ...computed,
      ...instructions.slice(body),
    ];
    if (!this.imported) return all;
    const model = all.findIndex(([opcode]) => opcode === OP.MemoryModel);
    const imported = [OP.ExtInstImport, this.imported, ...text(SET)];
    return [...all.slice(0, model), imported, ...all.slice(model)];
  }

  encode(instructions) {
    this.header[3] = this.bound;
    const words = [...this.header];
    for (const [opcode, ...operands] of instructions) {
      words.push(((operands.length + 1) << 16) | opcode);
      for (const operand of operands) words.push(operand);
    }
    return Uint32Array.from(words);
  }
}
