// A field to search in, with a list below it: arrows choose, Enter takes, Escape closes (the combobox of ARIA's patterns).
import { element, whole } from "./dom.js";

const MOST = 8;

export function picker(input, list, note, model, search, without, take) {
  let found = [], active = -1;

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (place) => {
    active = place;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", i === active));
    if (active < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[active].id);
    list.children[active].scrollIntoView({ block: "nearest" });
  };
  const pick = (item) => {
    input.value = "";
    close();
    note.textContent = "";
    take(item);
    input.focus();
  };
  const look = () => {
    const hits = search(input.value, MOST, without());
    found = hits.found;
    list.replaceChildren(...found.map((item, i) => element("li", {
      role: "option", id: `option-${i}`, "aria-selected": "false", onmousedown: (event) => event.preventDefault(), onclick: () => pick(item),
    }, [element("span", {}, [model.titles[item]]), element("small", {}, [`met by ${whole(model.arrays.popularity.data[item])}`])])));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    const more = hits.count > found.length ? `, the first ${found.length} are shown` : "";
    note.textContent = input.value.trim() ? (hits.count ? `${whole(hits.count)} found${more}` : "nothing is called that") : "";
    choose(found.length ? 0 : -1);
  };
  input.addEventListener("input", look);
  input.addEventListener("focus", () => input.value && look());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && !list.hidden && active >= 0) pick(found[active]);
    else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && found.length) {
      if (list.hidden) look();
      else choose((active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
    } else return;
    event.preventDefault();
  });
}
