// Why something is recommended: the parts of its score, as a table with bars. They add up to the score.
import { element, number } from "./dom.js";

const MOST = 8; // likes that are shown by themselves
const SAYS = {
  solve: "Your vector is solved from everything you like at once, and the solution is a sum over your likes. So these parts are exact.",
  train: "Your numbers are what everyone begins with, moved a little by each like and by each item drawn as not liked. So these parts are exact.",
  nothing: "The score is the sum of what each of your likes says of this item. So these parts are exact.",
};

export function why(model, likes, item, score, { shares, others }) {
  let parts = likes.map((like, at) => ({ text: model.titles[like], value: shares[at], kind: "like" }));
  parts.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const more = parts.slice(MOST);
  parts = parts.slice(0, MOST);
  if (more.length) {
    const value = more.reduce((sum, part) => sum + part.value, 0);
    parts.push({ text: `${more.length} more that you like`, value, kind: "like" });
  }
  parts.push(...others.map(([text, value]) => ({ text, value, kind: "other" })));
  const longest = Math.max(...parts.map(({ value }) => Math.abs(value)), 1e-12);
  const less = parts.some(({ value }) => value < 0);
  const rows = parts.map(({ text, value, kind }) => {
    const bar = element("span", { class: `bar ${value < 0 ? "less" : "more"} ${kind}` });
    bar.style.setProperty("--long", Math.abs(value) / longest);
    return element("tr", { "data-share": value }, [
      element("th", { scope: "row" }, [text]),
      element("td", { class: less ? "bars both" : "bars", "aria-hidden": "true" }, [bar]),
      element("td", { class: "number" }, [number(value, true)]),
    ]);
  });
  const sum = parts.reduce((total, { value }) => total + value, 0);
  return element("div", { class: "why" }, [
    element("table", {}, [
      element("caption", {}, [`What the score of ${model.titles[item]} is made of`]),
      element("thead", { class: "unseen" }, [
        element("tr", {}, [element("th", { scope: "col" }, ["part"]), element("td", {}), element("th", { scope: "col" }, ["of the score"])]),
      ]),
      element("tbody", {}, rows),
      element("tfoot", {}, [
        element("tr", {}, [
          element("th", { scope: "row" }, ["the score"]), element("td", { "aria-hidden": "true" }),
          element("td", { class: "number", "data-sum": sum }, [number(score)]),
        ]),
      ]),
    ]),
    likes.length && shares.length ? element("p", { class: "note" }, [`${SAYS[model.recipe.private.how]} They add up to the score.`]) : "",
  ]);
}
