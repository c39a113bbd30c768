// Elements from data. Text goes in as text, never as markup: names in a report may hold anything.
"use strict";

const culprit = { views: {} };

// An element with attributes and children (elements, texts, or nothing). "on..." attributes are event handlers; false,
// null and undefined leave an attribute or a child out.
culprit.el = function (tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === false || child === null || child === undefined) continue;
    element.append(child);
  }
  return element;
};

// Replaces the content of `element`.
culprit.fill = function (element, ...children) {
  const shown = children.flat().filter((child) => child !== null && child !== undefined && child !== false);
  element.replaceChildren(...shown);
  return element;
};

// The tooltip for the element under the pointer or with the focus. One for the whole page.
culprit.tooltip = (function () {
  let box = null;
  function show(x, y, lines) {
    if (!box) {
      box = culprit.el("div", { class: "tooltip", role: "tooltip" });
      document.body.append(box);
    }
    culprit.fill(box, lines.map((line, i) => culprit.el("div", { class: i === 0 ? "tooltip-title" : null }, line)));
    box.hidden = false;
    const width = box.offsetWidth, height = box.offsetHeight;
    box.style.left = Math.max(8, Math.min(x + 14, window.innerWidth - width - 8)) + "px";
    box.style.top = (y + 18 + height > window.innerHeight ? Math.max(8, y - height - 12) : y + 18) + "px";
  }
  function hide() {
    if (box) box.hidden = true;
  }
  return { show, hide };
})();

// Removes texts that begin before the text to the left of them ends; the first one stays. They must be on the page.
culprit.leaveOutOverlapping = function (texts) {
  let free = -Infinity;
  for (const text of texts) {
    const box = text.getBoundingClientRect();
    if (box.left < free) text.remove();
    else free = box.right + 6;
  }
};

// Tells screen readers.
culprit.announce = function (text) {
  const region = document.getElementById("announcements");
  if (region) region.textContent = text;
};
