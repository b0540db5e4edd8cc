"use strict";
// Draws the figures, sorts the tables and saves what is asked for. Nothing is fetched.
(() => {
  const held = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const rowsOf = (name) => {
    const columns = held.tables[name], names = Object.keys(columns);
    const length = names.length ? columns[names[0]].length : 0;
    return Array.from({ length }, (_, i) => Object.fromEntries(names.map((n) => [n, columns[n][i]])));
  };
  const namesIn = (part, found = new Set()) => {
    if (Array.isArray(part)) part.forEach((one) => namesIn(one, found));
    else if (part && typeof part === "object") {
      if (part.data && part.data.name) found.add(part.data.name);
      Object.values(part).forEach((one) => namesIn(one, found));
    }
    return found;
  };

  // The page has one legend for a figure's lines; a saved chart has its own.
  const embed = (box, panel, theme, width, legends) => {
    const spec = JSON.parse(panel.querySelector(".spec").textContent);
    const config = structuredClone(held.themes[theme]);
    spec.datasets = {};
    namesIn(spec).forEach((name) => { spec.datasets[name] = rowsOf(name); });
    if (!legends && panel.dataset.legend === "page") config.legend.disable = true;
    const full = { ...spec, width, autosize: { type: "fit-x", contains: "padding" } };
    return window.vegaEmbed(box, full, { config, mode: "vega-lite", renderer: "svg", actions: false });
  };

  const drawn = new Map();
  const draw = async (panel) => {
    const box = panel.querySelector(".chart"), width = Math.floor(box.clientWidth);
    if (!width) return;
    if (drawn.has(panel)) drawn.get(panel).finalize();
    box.dataset.width = width;
    const inner = document.createElement("div"); // the box itself says what it shows
    inner.setAttribute("aria-hidden", "true");
    box.replaceChildren(inner);
    drawn.set(panel, await embed(inner, panel, dark.matches ? "dark" : "light", width, false));
  };
  const panels = [...document.querySelectorAll(".panel")];
  const drawAll = () => Promise.all(panels.filter((p) => !p.hidden).map(draw));
  let waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => panels.filter((p) => !p.hidden &&
      Math.floor(p.querySelector(".chart").clientWidth) !== +p.querySelector(".chart").dataset.width).forEach(draw), 150);
  });
  dark.addEventListener("change", drawAll);
  document.querySelectorAll(".choices input").forEach((input) => input.addEventListener("change", () => {
    input.closest("figure").querySelectorAll(".panel").forEach((panel) => {
      panel.hidden = panel.dataset.choice !== input.value;
      if (!panel.hidden) draw(panel);
    });
  }));

  const save = (name, url) => {
    const link = document.createElement("a");
    link.download = name; link.href = url; link.click();
    if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
  const blob = (text, type) => URL.createObjectURL(new Blob([text], { type }));
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = (lines) => lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
  const asCsv = (name) => {
    const columns = held.tables[name], names = Object.keys(columns);
    return csv([names, ...rowsOf(name).map((row) => names.map((n) => row[n]))]);
  };
  const picture = async (button, make) => {
    const made = await embed(document.createElement("div"), button.closest(".panel"), "paper", 480, true);
    save(`${button.dataset.name}.${button.dataset.save}`, await make(made.view));
    made.finalize();
  };
  const saved = {
    csv: (button) => save(`${button.dataset.name}.csv`, blob(asCsv(button.dataset.table), "text/csv")),
    table: (button) => {
      const table = button.closest("section").querySelector("table.sorts");
      const lines = [...table.rows].map((row) => [...row.cells].map((cell) => cell.innerText.replace(/ [↕↑↓]$/, "").trim()));
      save(`${button.dataset.name}.csv`, blob(csv(lines), "text/csv"));
    },
    svg: (button) => picture(button, async (view) => blob(await view.toSVG(), "image/svg+xml")),
    png: (button) => picture(button, (view) => view.toImageURL("png", 3)),
  };
  document.querySelectorAll("[data-save]").forEach((button) =>
    button.addEventListener("click", () => saved[button.dataset.save](button)));

  // Numbers as a table, made when first opened.
  const most = 500;
  document.querySelectorAll("details[data-table]").forEach((details) => details.addEventListener("toggle", () => {
    if (!details.open || details.querySelector("table")) return;
    const rows = rowsOf(details.dataset.table), names = Object.keys(rows[0] || {});
    const box = document.createElement("div"), table = document.createElement("table");
    box.className = "scroll"; box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", "Numbers");
    const line = (tag, values, into) => {
      const row = into.insertRow();
      values.forEach((value) => {
        const cell = document.createElement(tag);
        if (tag === "th") cell.scope = "col";
        cell.textContent = value ?? ""; row.append(cell);
      });
    };
    line("th", names, table.createTHead());
    const body = table.createTBody();
    rows.slice(0, most).forEach((row) => line("td", names.map((n) => row[n]), body));
    box.append(table);
    details.append(box);
    if (rows.length > most) {
      const note = document.createElement("p");
      note.textContent = `The first ${most} of ${rows.length} rows; the CSV has all.`;
      details.append(note);
    }
  }));

  document.querySelectorAll("table.sorts").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => {
      const key = (row) => row.cells[at].dataset.value ?? "";
      const rows = [...table.tBodies[0].rows];
      const numbers = rows.every((row) => key(row) === "" || !Number.isNaN(parseFloat(key(row))));
      const up = head.getAttribute("aria-sort") === "none" ? !numbers : head.getAttribute("aria-sort") === "descending";
      const order = (a, b) => numbers ? parseFloat(a) - parseFloat(b) : a.localeCompare(b);
      rows.sort((a, b) => {
        if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
        return (up ? 1 : -1) * order(key(a), key(b));
      });
      table.tBodies[0].append(...rows);
      heads.forEach((one) => one.setAttribute("aria-sort", one === head ? (up ? "ascending" : "descending") : "none"));
    }));
  });

  drawAll().then(() => { document.documentElement.dataset.ready = "yes"; });
})();
