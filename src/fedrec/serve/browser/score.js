// Scores, as the recipe's expression says: of a stretch of items at once, or of one with the way back for gradients.
import { count, width } from "./model.js";

// Values of items from..to, row by row.
export function values(e, p, from, to) {
  const [kind, ...rest] = e, n = to - from;
  if (kind === "rows") {
    const wide = width(p[rest[0]]), start = from * wide;
    if (rest.length === 1) return { x: p[rest[0]].data.subarray(start, to * wide), wide };
    const x = new Float64Array(n * wide);
    for (const name of rest) for (let i = 0, table = p[name].data; i < x.length; i++) x[i] += table[start + i];
    return { x, wide };
  }
  if (kind === "vector") {
    const wide = count(p[rest[0]]), x = new Float64Array(n * wide);
    for (let i = 0; i < n; i++) x.set(p[rest[0]].data, i * wide);
    return { x, wide };
  }
  if (kind === "join") {
    const parts = rest.map((part) => values(part, p, from, to)), wide = parts.reduce((sum, part) => sum + part.wide, 0);
    const x = new Float64Array(n * wide);
    for (let i = 0; i < n; i++) {
      let at = i * wide;
      for (const part of parts) {
        x.set(part.x.subarray(i * part.wide, (i + 1) * part.wide), at);
        at += part.wide;
      }
    }
    return { x, wide };
  }
  if (kind === "plus") {
    const parts = rest.map((part) => values(part, p, from, to)), x = Float64Array.from(parts[0].x);
    for (const part of parts.slice(1)) for (let i = 0; i < x.length; i++) x[i] += part.x[i];
    return { x, wide: parts[0].wide };
  }
  if (kind === "times") {
    const inner = values(rest[1], p, from, to), by = p[rest[0]].data, wide = inner.wide;
    return { x: Float64Array.from(inner.x, (v, i) => v * by[i % wide]), wide };
  }
  if (kind === "relu") {
    const inner = values(rest[0], p, from, to);
    return { x: inner.x.map((v) => (v > 0 ? v : 0)), wide: inner.wide };
  }
  const [weights, bias] = rest, inner = values(rest[2], p, from, to), w = p[weights].data, d = inner.wide;
  const wide = count(p[weights]) / d, x = new Float64Array(n * wide), b = bias === null ? null : p[bias].data;
  for (let i = 0; i < n; i++) {
    for (let o = 0; o < wide; o++) {
      let sum = b === null ? 0 : b[o];
      for (let k = 0, at = i * d, row = o * d; k < d; k++) sum += w[row + k] * inner.x[at + k];
      x[i * wide + o] = sum;
    }
  }
  return { x, wide };
}

// The value for one item, and a function that hands every array its gradient: give(name, row or null, gradient).
export function forward(e, p, item) {
  const [kind, ...rest] = e;
  if (kind === "rows") {
    return [values(e, p, item, item + 1).x, (g, give) => rest.forEach((name) => give(name, item, g))];
  }
  if (kind === "vector") return [p[rest[0]].data, (g, give) => give(rest[0], null, g)];
  if (kind === "join") {
    const parts = rest.map((part) => forward(part, p, item)), x = parts.flatMap(([v]) => [...v]);
    const back = (g, give) => {
      let at = 0;
      for (const [v, before] of parts) before(g.slice(at, (at += v.length)), give);
    };
    return [Float64Array.from(x), back];
  }
  if (kind === "plus") {
    const parts = rest.map((part) => forward(part, p, item));
    const x = Float64Array.from(parts[0][0], (_, i) => parts.reduce((sum, [v]) => sum + v[i], 0));
    return [x, (g, give) => parts.forEach(([, before]) => before(g, give))];
  }
  if (kind === "times") {
    const [x, before] = forward(rest[1], p, item), by = p[rest[0]].data;
    const back = (g, give) => {
      give(rest[0], null, Float64Array.from(g, (v, i) => v * x[i]));
      before(Float64Array.from(g, (v, i) => v * by[i]), give);
    };
    return [Float64Array.from(x, (v, i) => v * by[i]), back];
  }
  if (kind === "relu") {
    const [x, before] = forward(rest[0], p, item);
    const back = (g, give) => before(Float64Array.from(g, (v, i) => (x[i] > 0 ? v : 0)), give);
    return [Float64Array.from(x, (v) => (v > 0 ? v : 0)), back];
  }
  const [weights, bias] = rest, [x, before] = forward(rest[2], p, item), w = p[weights].data, d = x.length;
  const y = new Float64Array(w.length / d);
  for (let o = 0; o < y.length; o++) {
    y[o] = bias === null ? 0 : p[bias].data[o];
    for (let k = 0; k < d; k++) y[o] += w[o * d + k] * x[k];
  }
  const back = (g, give) => {
    const down = new Float64Array(d), across = new Float64Array(w.length);
    for (let o = 0; o < y.length; o++) {
      for (let k = 0; k < d; k++) {
        down[k] += g[o] * w[o * d + k];
        across[o * d + k] = g[o] * x[k];
      }
    }
    give(weights, null, across);
    if (bias !== null) give(bias, null, g);
    before(down, give);
  };
  return [y, back];
}

// The device's own arrays in which the score is a sum, with all else as it is: of a product, the outer factor.
// (What ReLUs let through for an item is part of "as it is".)
export function outer(e, own) {
  const [kind, ...rest] = e, mine = (name) => (own.has(name) ? [name] : []);
  if (kind === "rows" || kind === "vector") return kind === "rows" ? [] : mine(rest[0]);
  if (kind === "join" || kind === "plus") return rest.flatMap((part) => outer(part, own));
  if (kind === "times") return own.has(rest[0]) ? [rest[0]] : outer(rest[1], own);
  if (kind === "relu") return outer(rest[0], own);
  return [...(own.has(rest[0]) ? [rest[0]] : outer(rest[2], own)), ...mine(rest[1])];
}
