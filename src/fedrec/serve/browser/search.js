// Titles by a few letters: accents and capitals do not matter, every word has to be there, what is met often comes first.

const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

export function searcher({ titles, items, arrays }) {
  const often = arrays.popularity.data, texts = titles.map(fold), ids = items.map(String);
  return (query, most, without) => {
    const words = fold(query).split(/\s+/).filter(Boolean), first = words.join(" "), left = new Set(without);
    if (!words.length) return { found: [], count: 0 };
    const found = [];
    let count = 0;
    for (let i = 0; i < texts.length; i++) {
      const text = texts[i], exact = ids[i] === query.trim();
      if (!(exact || words.every((word) => text.includes(word))) || left.has(i)) continue;
      count++;
      const far = exact || text === first ? 0 : text.startsWith(first) ? 1 : ` ${text}`.includes(` ${first}`) ? 2 : 3;
      let at = found.length;
      while (at > 0 && (found[at - 1].far > far || (found[at - 1].far === far && often[found[at - 1].item] < often[i]))) at--;
      if (at < most) found.splice(at, 0, { item: i, far });
      if (found.length > most) found.pop();
    }
    return { found: found.map(({ item }) => item), count };
  };
}
