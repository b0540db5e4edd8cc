// A vector in closed form (FedALS, FedNext, FCF, iALS), and what each like has in a score: exactly, because the solution
// is a sum over the likes.
import { width } from "./model.js";

// By age, the newest like has age 0: floor + (1 − floor) · ½^(age / half-life).
export const byAge = (age, halfLife, floor) => floor + (1 - floor) * 0.5 ** (age / halfLife);

const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);

// A symmetric matrix with positive eigenvalues as L Lᵀ; then solve(b) is two passes over L.
function cholesky(a, d) {
  for (let j = 0; j < d; j++) {
    for (let i = j; i < d; i++) {
      let sum = a[i * d + j];
      for (let k = 0; k < j; k++) sum -= a[i * d + k] * a[j * d + k];
      a[i * d + j] = i === j ? Math.sqrt(sum) : sum / a[j * d + j];
    }
  }
  return (b) => {
    const x = Float64Array.from(b);
    for (let i = 0; i < d; i++) {
      for (let k = 0; k < i; k++) x[i] -= a[i * d + k] * x[k];
      x[i] /= a[i * d + i];
    }
    for (let i = d - 1; i >= 0; i--) {
      for (let k = i + 1; k < d; k++) x[i] -= a[k * d + i] * x[k];
      x[i] /= a[i * d + i];
    }
    return x;
  };
}

export function solved(arrays, recipe, likes) {
  const { private: how } = recipe, table = arrays[how.items], d = width(table), n = likes.length;
  const row = (name, i) => arrays[name].data.subarray(i * width(arrays[name]), (i + 1) * width(arrays[name]));
  const own = likes.map((i) => row(how.items, i)), ages = likes.map((_, at) => n - 1 - at);
  const lam = how.lam * n ** how.scale, a = Float64Array.from(arrays[how.gram].data);
  for (const o of own) for (let i = 0; i < d; i++) for (let j = 0; j < d; j++) a[i * d + j] += how.alpha * o[i] * o[j];
  for (let i = 0; i < d; i++) a[i * d + i] += lam;
  const solve = cholesky(a, d);
  const weight = ages.map((age) => (1 + how.alpha) * (how.recency ? byAge(age, ...arrays[how.recency].data) : 1));
  const prior = how.prior ? arrays[how.prior].data : new Float32Array(d);
  const right = Float64Array.from(prior, (v) => lam * v);
  own.forEach((o, at) => o.forEach((v, k) => (right[k] += weight[at] * v)));
  const made = { [how.vector]: { data: solve(right), shape: [d] } };

  const next = how.next; // a context is made of rows of length 1
  const over = next && own.map((o) => 1 / Math.max(Math.sqrt(dot(o, o)), next.shortest));
  const lasts = next && next.decays.map((g) => ages.map((age, at) => (1 - g) * g ** age * over[at]));
  const by = (k) => arrays[next.weight].data[arrays[next.weight].shape.length ? k : 0]; // one for all, or one each
  if (next) {
    const context = new Float64Array(next.decays.length * d + 1);
    next.decays.forEach((_, g) => own.forEach((o, at) => o.forEach((v, k) => (context[g * d + k] += lasts[g][at] * v))));
    context[context.length - 1] = 1;
    made[next.context] = { data: context.map((v, k) => v * by(k)), shape: [context.length] };
  }

  // vᵀw = Σ (1 + α) m vᵀA⁻¹o + λ vᵀA⁻¹w₀; a next-item table adds, for each like, its part of the context.
  const explain = (item) => {
    const back = solve(row(how.items, item));
    const shares = own.map((o, at) => weight[at] * dot(o, back));
    let rest = lam * dot(prior, back);
    if (next) {
      const table = recipe.score[2][3][1], there = row(table, item), end = there.length - 1;
      own.forEach((o, at) => next.decays.forEach((_, g) => o.forEach((v, k) => {
        shares[at] += lasts[g][at] * v * by(g * d + k) * there[g * d + k];
      })));
      rest += by(end) * there[end];
    }
    return { shares, others: [["what the model gives everyone", rest]] };
  };
  return { p: { ...arrays, ...made }, explain, vector: made[how.vector].data };
}
