// The page on paper. A list on the screen makes its rows as one scrolls, and opens an entry at a click: paper has
// neither, so that a copy of the lists with their stacks is made before printing and taken away afterwards.
"use strict";

culprit.printing = (function () {
  const { el } = culprit;
  const most = 100; // entries of a list; a report of 20,000 would have thousands of sheets
  const mostBreakdowns = 10; // opened ones of a section; a job has some for each rank
  let table = null, copy = null, opened = [];

  function entry(detailed, one) {
    const row = table.row(one, -1);
    row.removeAttribute("id"); // the row in the list has it
    row.querySelector(".row-open").setAttribute("aria-expanded", detailed ? "true" : "false");
    return detailed ? [row, table.detailRow(one)] : [row];
  }

  function section({ title, status, items, detailed }) {
    const rest = items.slice(most);
    const bytes = d3.sum(rest, (one) => one.bytes);
    return el("section", { class: "card printed", "aria-label": title + ", printed" },
      el("div", { class: "card-head" }, el("div", null, el("h2", null, title), el("p", { class: "quiet" }, status))),
      el("table", { class: "leaks" }, el("tbody", null, items.slice(0, most).flatMap((one) => entry(detailed, one)))),
      rest.length > 0 && el("p", { class: "quiet not-printed" },
        culprit.plural(rest.length, "entry", "entries") + (bytes > 0 ? " (" + culprit.bytes(bytes) + ")" : "") +
          " of this list are not printed: search or filter the list for them."));
  }

  function begin() {
    if (copy !== null) return;
    copy = table === null ? [] : table.printedLists().map(section);
    for (const one of copy) {
      // All callers of a stack.
      for (const more of [...one.querySelectorAll(".more-frames")]) more.click();
    }
    const main = document.querySelector("main");
    main.append(...copy);
    for (const part of main.querySelectorAll("section")) {
      for (const one of [...part.querySelectorAll("details.breakdown:not([open])")].slice(0, mostBreakdowns)) {
        one.open = true;
        opened.push(one);
      }
    }
  }

  function end() {
    if (copy === null) return;
    for (const one of copy) one.remove();
    for (const one of opened) one.open = false;
    copy = null;
    opened = [];
  }

  window.addEventListener("beforeprint", begin);
  window.addEventListener("afterprint", end);
  // (The emulation of paper in a browser's tools sends no such events.)
  window.matchMedia("print").addEventListener("change", (event) => { if (event.matches) begin(); else end(); });

  // The table of the page is this one from now on.
  return (one) => {
    end();
    table = one;
  };
})();
