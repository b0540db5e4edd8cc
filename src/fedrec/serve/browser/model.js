// An exported run (docs/export.md): arrays by name, the catalogue, and the recipe.

const KINDS = { F32: Float32Array, I32: Int32Array, I64: BigInt64Array };

export function read(raw) {
  const size = Number(new DataView(raw).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(raw, 8, size)));
  const { __metadata__: about, ...entries } = header;
  const arrays = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(entries)) {
    const at = 8 + size + from;
    const data = dtype === "F16" ? halves(raw, at, to - from) : new KINDS[dtype](raw.slice(at, at + to - from));
    arrays[name] = { data, shape };
  }
  return { about, arrays, items: JSON.parse(about.items), titles: JSON.parse(about.titles), recipe: JSON.parse(about.recipe) };
}

// Base64 as the page holds it, in pieces: one call for a hundred megabytes would need them three times at once.
export function bytes(text) {
  const piece = 1 << 20, out = new Uint8Array(Math.floor((text.length * 3) / 4));
  let end = 0;
  for (let start = 0; start < text.length; start += piece) {
    const part = atob(text.slice(start, start + piece));
    for (let i = 0; i < part.length; i++) out[end++] = part.charCodeAt(i);
  }
  return out.slice(0, end).buffer;
}

// Numbers of 16 bits: each of the 65,536 that there are is worked out once.
function halves(raw, at, length) {
  const all = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const size = exponent === 0 ? fraction * 2 ** -24
      : exponent === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (exponent - 15);
    all[bits] = bits & 32768 ? -size : size;
  }
  return Float32Array.from(new Uint16Array(raw.slice(at, at + length)), (bits) => all[bits]);
}

export const width = ({ shape }) => shape.slice(1).reduce((a, b) => a * b, 1);
export const count = ({ shape }) => shape.reduce((a, b) => a * b, 1);
