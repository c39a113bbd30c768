// Draws the data: one function per view, so that other pages can share the pieces.
"use strict";

(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  culprit.views[data.view](data);
  document.documentElement.dataset.ready = "true";
})();
