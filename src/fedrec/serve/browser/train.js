// By local steps (FedMF, PFedRec, FedRecon, FedRAP, networks). Every step is a sum over samples, so each array is kept as
// a sum, too: what it began with, what each like moved, what items moved that were drawn as not liked.
import { count, width } from "./model.js";
import { negatives, order } from "./random.js";
import { forward, outer } from "./score.js";
import { byAge } from "./solve.js";

export function trained(arrays, recipe, likes) {
  const how = recipe.private, n = likes.length, items = count(arrays.popularity), own = new Set(Object.keys(how.start));
  const summed = new Set(outer(recipe.score, own)), START = n, DRAWN = n + 1; // beside the likes 0..n−1
  const slots = {};
  for (const [name, start] of Object.entries(how.start)) {
    const shape = how.shapes[name], size = count({ shape });
    const data = typeof start === "string" ? Float64Array.from(arrays[start].data) : new Float64Array(size).fill(start);
    const parts = summed.has(name) ? Array.from({ length: n + 2 }, () => new Float64Array(size)) : null;
    if (parts) parts[START].set(data);
    slots[name] = { shape, data, parts, wide: how.rows.includes(name) ? width({ shape }) : 0, state: null };
  }
  for (const turn of how.passes) {
    const drawn = negatives(BigInt(turn.negatives), likes, items, n * how.negatives_per_positive);
    const samples = [...likes, ...drawn].map((item, at) => ({ item, like: at < n, source: at < n ? at : DRAWN }));
    const held = [...new Set(samples.map(({ item }) => item))], undo = remembered(slots, held);
    let loss = 0;
    for (const phase of turn.phases) loss = onePhase(slots, arrays, recipe, phase, samples, held);
    const sound = Object.values(slots).every((slot) => places(slot, held).every((k) => Number.isFinite(slot.data[k])));
    if (!(Math.abs(loss) < how.wild && sound)) undo(); // it ran away: forgotten
  }
  const p = { ...arrays, ...slots };
  const explain = (item) => {
    const shares = new Array(n + 2).fill(0), [[score], back] = forward(recipe.score, p, item);
    back([1], (name, row, g) => {
      if (summed.has(name)) slots[name].parts.forEach((part, at) => g.forEach((v, k) => (shares[at] += v * part[k])));
    });
    const others = [["items drawn as not liked", shares[DRAWN]], ["what everyone begins with", shares[START]]];
    const shared = score - shares.reduce((a, b) => a + b, 0); // layers that are the same for all add something of their own
    if (Math.abs(shared) > 1e-9 * (1 + Math.abs(score))) others.push(["layers that are the same for all", shared]);
    return { shares: shares.slice(0, n), others };
  };
  const first = [...summed].sort((a, b) => slots[b].data.length - slots[a].data.length)[0];
  return { p, explain, vector: slots[first].data };
}

// The numbers of an array that a pass can move: of a table those of the rows it holds.
function places({ data, wide }, held) {
  if (!wide) return Array.from(data, (_, k) => k);
  return held.flatMap((item) => Array.from({ length: wide }, (_, k) => item * wide + k));
}

// Arrays as they are now; the result puts them back.
function remembered(slots, held) {
  const kept = Object.entries(slots).map(([name, slot]) => {
    const at = places(slot, held), parts = slot.parts && slot.parts.map((part) => part.slice());
    return [name, at, Float64Array.from(at, (k) => slot.data[k]), parts, structuredClone(slot.state)];
  });
  return () => {
    for (const [name, at, data, parts, state] of kept) {
      at.forEach((k, i) => (slots[name].data[k] = data[i]));
      Object.assign(slots[name], { parts, state });
    }
  };
}

// Epochs over the samples; slots are changed; the loss of the last epoch.
function onePhase(slots, arrays, recipe, phase, samples, held) {
  const how = recipe.private, names = phase.groups.flatMap((group) => group.names);
  for (const group of phase.groups) {
    for (const name of group.names) if (!slots[name].state || !group.keeps) slots[name].state = { t: 0 };
  }
  weigh(samples, phase.recency, how.negatives_per_positive);
  let last = 0, total = 0;
  for (const [epoch, key] of phase.orders.entries()) {
    const at = order(BigInt(key), samples.length), size = how.one_step ? at.length : how.batch;
    total = 0;
    for (let start = 0; start < at.length; start += size) {
      const batch = at.slice(start, start + size).map((i) => samples[i]);
      const [value, grads] = gradients(slots, arrays, recipe, phase, batch, names);
      for (const group of phase.groups) for (const name of group.names) step(slots[name], group, grads[name], held);
      total += (value * batch.length) / at.length;
    }
    if (epoch > 0 && how.tolerance > 0 && Math.abs(last - total) <= how.tolerance * Math.abs(last)) break;
    last = total;
  }
  return total;
}

// A like's weight by age, over the mean of these weights; its negatives weigh what it does.
function weigh(samples, recency, each) {
  const n = samples.filter(({ like }) => like).length;
  const ages = samples.slice(0, n).map((_, at) => (recency ? byAge(n - 1 - at, ...recency) : 1));
  const mean = ages.reduce((a, b) => a + b, 0) / n;
  samples.forEach((sample, at) => (sample.weight = ages[at < n ? at : Math.floor((at - n) / each)] / mean));
}

// The loss of a batch and its gradient in what the phase moves, perhaps taken a little further along itself.
function gradients(slots, arrays, recipe, phase, batch, names) {
  const radius = recipe.private.radius, found = gradient(slots, arrays, recipe, phase, batch, names);
  if (!(radius > 0)) return found;
  let norm = 0;
  for (const name of names) for (const g of found[1][name].all.values()) for (const v of g) norm += v * v;
  const far = radius / (Math.sqrt(norm) + 1e-12), undo = remembered(slots, [...new Set(batch.map(({ item }) => item))]);
  for (const name of names) {
    for (const [row, g] of found[1][name].all) g.forEach((v, k) => (slots[name].data[row * g.length + k] += far * v));
  }
  const [, there] = gradient(slots, arrays, recipe, phase, batch, names);
  undo();
  return [found[0], there];
}

function gradient(slots, arrays, recipe, phase, batch, names) {
  const how = recipe.private, p = { ...arrays, ...slots }, moved = new Set(names), grads = {};
  for (const name of names) {
    const parts = slots[name].parts?.map(() => new Float64Array(slots[name].data.length));
    grads[name] = { all: new Map(), parts }; // by row; an array that is no table has one
  }
  let value = 0;
  for (const [at, { item, like, weight, source }] of batch.entries()) {
    const left = batch.length - Math.floor(at / how.batch) * how.batch; // in one step: a sum of means over so many each
    const share = weight / Math.min(how.batch, left), [[x], back] = forward(recipe.score, p, item);
    value += share * (Math.max(x, 0) - (like ? x : 0) + Math.log1p(Math.exp(-Math.abs(x))));
    back([share * (1 / (1 + Math.exp(-x)) - (like ? 1 : 0))], (name, row, g) => {
      if (!moved.has(name)) return;
      const { all, parts } = grads[name];
      added(all, row ?? 0, g);
      if (parts) for (let k = 0; k < g.length; k++) parts[source][k] += g[k];
    });
  }
  for (const term of how.terms) value += more(term, phase.terms[term.weight], p, batch, grads);
  return [value, grads];
}

function added(all, row, g) {
  const sum = all.get(row);
  if (sum) for (let k = 0; k < g.length; k++) sum[k] += g[k];
  else all.set(row, Float64Array.from(g));
}

// What the loss has besides: rows of two tables apart, or the size of one's.
function more({ kind, tables }, weight, p, batch, grads) {
  const [a, b] = tables.map((name) => p[name]), wide = width(a), entries = batch.length * wide, g = grads[tables[0]];
  let value = 0;
  for (const { item } of batch) {
    const of = ({ data }) => data.subarray(item * wide, (item + 1) * wide);
    if (kind === "apart") {
      const apart = Float64Array.from(of(a), (v, k) => v - of(b)[k]);
      for (const v of apart) value -= (weight * v * v) / entries;
      if (g) added(g.all, item, apart.map((v) => (-2 * weight * v) / entries));
    } else {
      for (const v of of(a)) value += (weight * (kind === "l1" ? Math.abs(v) : v * v)) / entries;
    }
  }
  return value;
}

// One step of an array, of a table in the rows that this pass holds. What is a sum moves part by part: the size of a
// step is the same for all parts of a number.
function step(slot, group, { all, parts: given }, held) {
  const { data, parts, wide, state } = slot, adam = group.optimizer === "Adam", size = wide || data.length;
  if (adam && !state.m) {
    Object.assign(state, { m: new Float64Array(data.length), v: new Float64Array(data.length) });
    if (parts) state.parts = parts.map(() => new Float64Array(data.length));
  }
  const rate = adam ? group.lr : group.lr * (group.decay ?? 1) ** state.t, decay = group.weight_decay ?? 0;
  const [b1, b2] = [group.beta1, group.beta2], t = (state.t += 1);
  for (const row of wide ? held : [0]) {
    for (let i = 0, k = row * size, g = all.get(row); i < size; i++, k++) {
      const slope = g ? g[i] : 0;
      if (!adam) {
        data[k] -= rate * (slope + decay * data[k]);
        parts?.forEach((part, at) => (part[k] -= rate * (given[at][k] + decay * part[k])));
        continue;
      }
      state.m[k] = b1 * state.m[k] + (1 - b1) * slope;
      state.v[k] = b2 * state.v[k] + (1 - b2) * slope ** 2;
      const by = rate / (1 - b1 ** t) / (Math.sqrt(state.v[k] / (1 - b2 ** t)) + group.epsilon);
      data[k] -= by * state.m[k];
      parts?.forEach((part, at) => {
        state.parts[at][k] = b1 * state.parts[at][k] + (1 - b1) * given[at][k];
        part[k] -= by * state.parts[at][k];
      });
    }
  }
}
