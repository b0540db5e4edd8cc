// Randomness by counters (SplitMix64): the k-th number of a key, so that every device can draw the same.

const GOLDEN = 0x9e3779b97f4a7c15n, cut = (x) => BigInt.asUintN(64, x);

export function below(key, k, n) {
  let x = cut(key + (BigInt(k) + 1n) * GOLDEN);
  x = cut((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
  x = cut((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
  return Number((((x ^ (x >> 31n)) >> 32n) * BigInt(n)) >> 32n);
}

// Items that are not liked, with replacement.
export function negatives(key, likes, items, count) {
  const liked = new Set(likes), found = [];
  if (liked.size >= items) return found;
  if (2 * liked.size > items) {
    const free = [];
    for (let i = 0; i < items; i++) if (!liked.has(i)) free.push(i);
    for (let k = 0; k < count; k++) found.push(free[below(key, k, free.length)]);
    return found;
  }
  for (let k = 0; found.length < count; k++) {
    const item = below(key, k, items);
    if (!liked.has(item)) found.push(item);
  }
  return found;
}

// Fisher-Yates: the order in which an epoch visits n samples.
export function order(key, n) {
  const places = Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = below(key, i, i + 1);
    [places[i], places[j]] = [places[j], places[i]];
  }
  return places;
}
