// Small pieces of a page. Text is always text: a title is never read as HTML.

export function element(name, attributes = {}, children = []) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export const at = (id) => document.getElementById(id);
export const whole = (value) => value.toLocaleString("en");

export function number(value, signed = false) {
  if (Number.isInteger(value) && Math.abs(value) >= 1 && !signed) return whole(value);
  const text = Math.abs(value).toFixed(Math.abs(value) >= 100 ? 1 : 3);
  return `${value < 0 ? "−" : signed ? "+" : ""}${text}`;
}
