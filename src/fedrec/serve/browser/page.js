// The page: what is liked, what follows from it, and what is kept. Everything happens here; nothing is sent.
import { at, element, number, whole } from "./dom.js";
import { bytes, read } from "./model.js";
import { picker } from "./picker.js";
import { best, device } from "./rank.js";
import { searcher } from "./search.js";
import { Likes } from "./store.js";
import { why } from "./why.js";

const FIRST = 10, BREATH = 30; // how many are shown at first; milliseconds of work before the page may draw
const facts = JSON.parse(at("facts").textContent);
const model = read(bytes(at("model").textContent.trim()));
at("model").remove();
const place = new Map(model.items.map((id, i) => [id, i])), search = searcher(model), store = new Likes(`fedrec ${facts.data}`);
const often = [...model.arrays.popularity.data.keys()];
let likes = [], shown = FIRST, turn = 0;

// -- what is liked ---------------------------------------------------------------------------------

async function change(next, said) {
  likes = next;
  store.keep(likes.map((item) => model.items[item]));
  drawLikes();
  drawHeld();
  await rank(said);
}

const like = (item) => change([...likes.filter((one) => one !== item), item], `${model.titles[item]} added.`);
const unlike = (item) => change(likes.filter((one) => one !== item), `${model.titles[item]} taken away.`);

function move(item, by) {
  const next = [...likes], from = next.indexOf(item);
  next.splice(from, 1);
  next.splice(from + by, 0, item);
  return change(next, `${model.titles[item]} is number ${next.length - next.indexOf(item)} now.`);
}

function drawLikes() {
  const focused = document.activeElement?.id, ordered = [...likes].reverse();
  at("liked").replaceChildren(...ordered.map((item, i) => {
    const title = model.titles[item];
    const button = (kind, sign, says, off, act) => element("button", {
      type: "button", id: `${kind}-${item}`, class: "icon", "aria-label": `${says}: ${title}`, title: says, disabled: off, onclick: act,
    }, [sign]);
    return element("li", { "data-item": model.items[item] }, [
      element("span", { class: "title" }, [title]),
      button("newer", "↑", "Newer", i === 0, () => move(item, 1)),
      button("older", "↓", "Older", i === ordered.length - 1, () => move(item, -1)),
      button("drop", "×", "Take away", false, () => unlike(item)),
    ]);
  }));
  at("order").hidden = likes.length < 2;
  if (focused && !at(focused)?.matches(":enabled")) {
    const same = at(focused)?.closest("li")?.querySelector("button:enabled");
    (same ?? at("liked").querySelector("button:enabled") ?? at("search")).focus();
  } else if (focused) at(focused).focus();
  const offered = likes.length < 3 ? often.filter((item) => !likes.includes(item)).slice(0, 6) : [];
  at("often").hidden = !offered.length;
  at("chips").replaceChildren(...offered.map((item) => element("li", {}, [
    element("button", { type: "button", class: "chip", onclick: () => like(item) }, [model.titles[item]]),
  ])));
}

// -- what follows ----------------------------------------------------------------------------------

async function rank(said = "") {
  const mine = ++turn, began = performance.now();
  document.documentElement.dataset.ready = "no";
  await new Promise((resolve) => setTimeout(resolve)); // what was clicked is drawn first
  if (mine !== turn) return;
  const made = device(model, likes);
  let last = performance.now();
  const pause = async () => {
    if (performance.now() - last < BREATH) return true;
    await new Promise((resolve) => setTimeout(resolve));
    last = performance.now();
    return mine === turn;
  };
  const found = await best(made, shown, likes, pause);
  if (found === null || mine !== turn) return;
  drawBest(made, found);
  drawVector(made.vector);
  const took = `${whole(model.items.length)} items ranked here in ${Math.max(1, Math.round(performance.now() - began))} ms`;
  at("took").textContent = likes.length ? `${took}.` : "You like nothing yet, so this is what most people have met.";
  at("said").textContent = `${said} ${found.length ? `First now: ${model.titles[found[0].item]}.` : "Nothing is left."}`;
  document.documentElement.dataset.ready = "yes";
}

function drawBest(made, found) {
  const focused = document.activeElement?.dataset?.rank, top = found[0]?.score, low = found.at(-1)?.score;
  at("best").replaceChildren(...found.map(({ item, score }, i) => {
    const title = model.titles[item], meter = element("span", { class: "meter", "aria-hidden": "true", hidden: !(low > 0) });
    meter.style.setProperty("--long", score / top);
    const details = element("details", {
      ontoggle: () => details.childElementCount < 2 && details.append(why(model, likes, item, score, made.explain(item))),
    }, [element("summary", {}, ["Why?", element("span", { class: "unseen" }, [` ${title}`])])]);
    return element("li", { "data-item": model.items[item], "data-score": score }, [
      element("div", { class: "line" }, [
        element("span", { class: "place", "aria-hidden": "true" }, [String(i + 1)]),
        element("span", { class: "title" }, [title]),
        element("span", { class: "score" }, [element("span", { class: "unseen" }, ["score "]), number(score)]),
        element("button", { type: "button", class: "add", "data-rank": i, "aria-label": `I like ${title}`, onclick: () => like(item) }, ["+ Like"]),
      ]),
      meter, details,
    ]);
  }));
  at("more").hidden = found.length < shown || shown >= model.items.length - likes.length;
  if (focused) at("best").querySelector(`[data-rank="${Math.min(focused, found.length - 1)}"]`)?.focus();
}

// -- what is kept ----------------------------------------------------------------------------------

function drawHeld() {
  const ids = likes.map((item) => model.items[item]);
  const where = store.db ? "in this browser (IndexedDB, on this device)" : "nowhere: this browser keeps nothing for this page, so likes last until it is closed";
  at("stored").textContent = `${whole(ids.length)} ${ids.length === 1 ? "like" : "likes"}, in order, ${where}.`;
  at("record").textContent = store.db ? JSON.stringify({ database: store.name, likes: ids }, null, 1) : "{}";
  at("command").textContent = ["fedrec recommend RUN", ...ids.map((id) => `--like ${/^[\w.-]+$/.test(id) ? id : JSON.stringify(id)}`)].join(" ");
  at("check").hidden = !ids.length;
}

function drawVector(vector) {
  at("vector").hidden = !vector;
  if (!vector) return;
  const most = Math.max(...vector.map(Math.abs)) || 1, shown = [...vector.slice(0, 256)];
  at("numbers").textContent = `${whole(vector.length)} numbers, made anew from your likes whenever they change, and never stored.`;
  at("strip").replaceChildren(...shown.map((v) => {
    const cell = element("i", { class: v < 0 ? "less" : "more" });
    cell.style.opacity = 0.08 + 0.92 * Math.abs(v / most);
    return cell;
  }));
}

function ask(sure) {
  at("sure").hidden = !sure;
  at("forget").hidden = sure;
  at(sure ? "really" : "forget").focus();
}

async function forget() {
  try {
    await store.forget();
    ask(false);
    await change([], "Everything is forgotten.");
  } catch {
    at("said").textContent = "It is open in another tab: close that one first, then forget.";
  }
}

// -- begin -----------------------------------------------------------------------------------------

often.sort((a, b) => model.arrays.popularity.data[b] - model.arrays.popularity.data[a]);
often.length = Math.min(often.length, 1000);
picker(at("search"), at("options"), at("hits"), model, search, () => likes, like);
at("more").addEventListener("click", () => {
  shown += FIRST;
  rank(`${shown} are shown.`);
});
at("forget").addEventListener("click", () => ask(true));
at("keep").addEventListener("click", () => ask(false));
at("really").addEventListener("click", forget);
const kept = await store.open();
likes = (kept ?? []).map((id) => place.get(id)).filter((item) => item !== undefined);
drawLikes();
drawHeld();
await rank();
if (facts.worker && location.protocol.startsWith("http")) navigator.serviceWorker?.register(facts.worker).catch(() => {});
