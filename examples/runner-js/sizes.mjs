// Sizes of a program: whole numbers, or expressions of names (docs/program.md, "Types and encodings").

export class Refused extends Error {}

export function refuse(message) {
  throw new Refused(message);
}

const TOKEN = /\s*(?:([\p{L}_][\p{L}\p{Nd}_]*)|([0-9]+)|([-+*/(),]))/uy;
const MOST_CHARACTERS = 10_000;
const MOST_PARENTHESES = 100;

export const isName = (size) => typeof size === "string" && /^[\p{L}_][\p{L}\p{Nd}_]*$/u.test(size);

// The number that a size is. `sizes` has the numbers behind names.
export function evaluate(size, sizes) {
  if (Number.isInteger(size)) return size;
  if (typeof size !== "string" || size.length > MOST_CHARACTERS) refuse(`${size} is no size`);
  const value = Number(new Expression(size, sizes).value());
  if (!Number.isSafeInteger(value)) refuse(`${size} is too large`);
  return value;
}

class Expression {
  constructor(text, sizes) {
    Object.assign(this, { text, sizes, tokens: [], at: 0, depth: 0 });
    TOKEN.lastIndex = 0;
    for (let end = 0; text.slice(end).trim(); end = TOKEN.lastIndex) {
      this.tokens.push((TOKEN.exec(text) ?? this.wrong()).slice(1).find(Boolean));
    }
  }

  wrong() {
    refuse(`${this.text} is no size`);
  }

  next(...wanted) {
    return wanted.includes(this.tokens[this.at]) ? this.tokens[this.at++] : undefined;
  }

  value() {
    const value = this.sum();
    return this.at === this.tokens.length ? value : this.wrong();
  }

  sum() {
    let value = this.product();
    for (let sign; (sign = this.next("+", "-")); ) {
      value += sign === "+" ? this.product() : -this.product();
    }
    return value;
  }

  product() {
    let value = this.factor();
    for (let sign; (sign = this.next("*", "/")); ) {
      const right = this.factor();
      if (sign === "/" && right < 1n) refuse(`${this.text} divides by ${right}`);
      value = sign === "*" ? value * right : (value - (((value % right) + right) % right)) / right;
    }
    return value;
  }

  factor() {
    const token = this.tokens[this.at++] ?? this.wrong();
    if (/^[0-9]/.test(token)) return BigInt(token);
    if (token === "(") return this.inside(() => this.sum());
    if (token === "min" && this.next("(")) return this.inside(() => this.smaller());
    if (!this.sizes.has(token)) refuse(`${this.text}: the size ${token} is not known`);
    return BigInt(this.sizes.get(token));
  }

  smaller() {
    const left = this.sum();
    if (!this.next(",")) this.wrong();
    const right = this.sum();
    return left < right ? left : right;
  }

  inside(read) {
    if (++this.depth > MOST_PARENTHESES) refuse(`${this.text} is nested too deeply`);
    const value = read();
    this.depth -= 1;
    return this.next(")") ? value : this.wrong();
  }
}
