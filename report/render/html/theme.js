// Light or dark: as chosen here before, else as the system prefers. Runs before anything is drawn.
"use strict";

culprit.theme = (function () {
  const key = "culprit-theme";
  // A page opened from a file may be denied access to the storage.
  const stored = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const store = (value) => { try { localStorage.setItem(key, value); } catch { /* this page only, then */ } };
  const page = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    const chosen = stored();
    page.dataset.theme = chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light";
  }
  function toggle() {
    page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark";
    store(page.dataset.theme);
    culprit.announce(page.dataset.theme + " theme");
  }
  apply();
  system.addEventListener("change", apply);
  return { toggle };
})();
