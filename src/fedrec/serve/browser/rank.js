// A device: makes its own part from what is liked, scores the catalogue, and says what a score is made of.
import { count } from "./model.js";
import { values } from "./score.js";
import { solved } from "./solve.js";
import { trained } from "./train.js";

const STRETCH = 4096; // items that are scored at once: their numbers stay in the processor's cache

// A device that likes these items (places in the catalogue, the newest last). `score(from, to)` gives scores of a
// stretch; `explain(item)` what each like has in one, and the rest: together they are the score.
export function device({ arrays, recipe }, likes) {
  const [kind, ...names] = recipe.score, n = count(arrays.popularity), all = names.map((name) => arrays[name]?.data);
  if (!likes.length) return same(arrays.popularity.data, n, "people who met it");
  if (kind === "same") return same(all[0], n, "the same for everyone");
  if (kind === "sum") {
    const shares = (item) => likes.map((like) => all[0][like * n + item]);
    const score = (from, to) => {
      const x = new Float64Array(to - from);
      for (const like of likes) for (let i = from; i < to; i++) x[i - from] += all[0][like * n + i];
      return x;
    };
    return { n, score, explain: (item) => ({ shares: shares(item), others: [] }), vector: null };
  }
  if (kind === "sum_sparse") {
    const [weights, columns, ends] = all, total = new Float64Array(n), rows = likes.map(() => new Map());
    likes.forEach((like, at) => {
      for (let k = Number(ends[like]); k < Number(ends[like + 1]); k++) {
        total[Number(columns[k])] += weights[k];
        rows[at].set(Number(columns[k]), weights[k]);
      }
    });
    const explain = (item) => ({ shares: rows.map((row) => row.get(item) ?? 0), others: [] });
    return { n, score: (from, to) => total.subarray(from, to), explain, vector: null };
  }
  const made = (recipe.private.how === "solve" ? solved : trained)(arrays, recipe, likes);
  return { n, score: (from, to) => values(recipe.score, made.p, from, to).x, explain: made.explain, vector: made.vector };
}

function same(scores, n, why) {
  const explain = (item) => ({ shares: [], others: [[why, Number(scores[item])]] });
  return { n, score: (from, to) => scores.subarray(from, to), explain, vector: null };
}

// The k best items that are not left out, best first; of equal ones the first in the catalogue. `pause` is called between
// stretches, and ends the work by returning false: a large catalogue never holds the page up.
export async function best(device, k, without, pause = () => true) {
  const left = new Set(without), items = [], scores = [];
  for (let from = 0; from < device.n; from += STRETCH) {
    const to = Math.min(device.n, from + STRETCH), found = device.score(from, to);
    for (let i = from; i < to; i++) {
      const score = Number(found[i - from]);
      if ((items.length === k && !(score > scores[k - 1])) || left.has(i)) continue;
      let at = items.length;
      while (at > 0 && scores[at - 1] < score) at--;
      items.splice(at, 0, i);
      scores.splice(at, 0, score);
      if (items.length > k) {
        items.pop();
        scores.pop();
      }
    }
    if (!(await pause())) return null;
  }
  return items.map((item, at) => ({ item, score: scores[at] }));
}
