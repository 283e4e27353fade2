"use strict";
(() => {
  const gallery = document.querySelector("#defects .gallery");
  const filters = document.querySelector(".filters");
  const more = document.querySelector(".more");

  // Inside a frame without an address of its own, following "#place" would leave the page.
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link) return;
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  });

  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((part) => { part.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));

  if (!gallery || !filters || !more) return;
  const cards = [...gallery.children];
  const selects = [...filters.querySelectorAll("select")];
  const output = filters.querySelector("output");
  const first = 24;
  let all = cards.length <= first;

  function matches(card) {
    return selects.every((select) => !select.value || card.dataset[select.dataset.filter].split(" ").includes(select.value));
  }

  function show(everything) {
    all = all || everything;
    const chosen = cards.filter(matches);
    cards.forEach((card) => { card.hidden = true; });
    chosen.slice(0, all ? chosen.length : first).forEach((card) => { card.hidden = false; });
    more.hidden = all || chosen.length <= first;
    more.textContent = `Show all ${chosen.length}`;
    output.textContent = `${chosen.length} of ${cards.length} defects match`;
  }

  function showTarget() {
    selects.forEach((select) => { select.value = ""; });
    show(true);
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#d-"]');
    if (link) showTarget();
  }, true);
  filters.hidden = false;
  selects.forEach((select) => select.addEventListener("change", () => show(false)));
  more.addEventListener("click", () => show(true));
  show(false);
})();
