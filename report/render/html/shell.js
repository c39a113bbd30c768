// Common to all pages: the bar at the top with the theme switch, the line at the bottom, and the dialogs.
"use strict";

// A dialog, created when it is opened.
culprit.dialog = function (title, ...content) {
  const { el } = culprit;
  const dialog = el("dialog", { class: "dialog", "aria-label": title },
    el("div", { class: "dialog-head" }, el("h2", null, title),
      el("button", { class: "icon-button", "aria-label": "Close", onclick: () => dialog.close() }, "×")),
    ...content);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
};

// The page's frame. `subject`: elements that describe the page's subject; `shortcuts`: [key, effect]. Returns the
// element for the page's content.
culprit.shell = function (subject, shortcuts) {
  const { el } = culprit;
  const help = () => culprit.dialog("Keyboard",
    el("dl", { class: "keys" }, shortcuts.concat([["t", "light or dark"], ["?", "this list"]])
      .map(([key, text]) => [el("dt", null, el("kbd", null, key)), el("dd", null, text)]).flat()));
  const licence = () => culprit.dialog("Drawn with D3",
    el("p", null, "D3 " + d3.version + ", https://d3js.org. Its licence:"),
    el("pre", { class: "licence" }, document.getElementById("d3-licence").textContent));
  const main = el("main", { class: "content" });
  culprit.fill(document.getElementById("app"),
    el("header", { class: "bar" },
      el("h1", { class: "brand" }, el("span", { class: "drop", "aria-hidden": "true" }), "culprit"),
      el("div", { class: "subject" }, subject),
      el("button", { class: "icon-button", id: "help", "aria-label": "Keyboard shortcuts", title: "Keyboard (?)",
        onclick: help }, "?"),
      el("button", { class: "icon-button theme-button", id: "theme", "aria-label": "Light or dark",
        title: "Light or dark (t)",
        onclick: culprit.theme.toggle }, "◐")),
    main,
    el("footer", { class: "foot" }, "Made by culprit, which finds GPU memory that was never given back. ",
      el("button", { class: "link-button", id: "licence", onclick: licence }, "Drawn with D3 " + d3.version)),
    el("div", { id: "announcements", class: "unseen", "aria-live": "polite" }));
  document.addEventListener("keydown", (event) => {
    if (culprit.isTyping(event) || document.querySelector("dialog[open]")) return;
    if (event.key === "t") culprit.theme.toggle();
    else if (event.key === "?") help();
    else return;
    event.preventDefault();
  });
  return main;
};

// Whether a key press belongs to a field, or to the browser.
culprit.isTyping = (event) =>
  event.ctrlKey || event.metaKey || event.altKey || ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);

// Notes that qualify the results; null for an empty list.
culprit.notes = function (list) {
  const { el } = culprit;
  return list.length === 0
    ? null
    : el("ul", { class: "notes", "aria-label": "Notes" }, list.map((text) => el("li", null, text)));
};

// Keys that bring the focus to the element of a selector; Escape leaves a field.
culprit.focusKeys = function (fields) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.tagName === "INPUT") {
      event.target.blur();
      return;
    }
    if (culprit.isTyping(event) || document.querySelector("dialog[open]")) return;
    const element = fields[event.key] && document.querySelector(fields[event.key]);
    if (!element || event.target.closest("tr.row") && event.key === "j") return;
    event.preventDefault();
    element.focus();
    element.scrollIntoView({ block: "center" });
  });
};

// Calls follow(id) with the part of the address after "#", now and whenever it changes.
culprit.followAddress = function (follow) {
  const look = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    if (id) follow(id);
  };
  look();
  window.addEventListener("hashchange", look);
};
