"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);

  // ---- Links. Inside a frame without an address of its own, following "#place" would leave the page.
  let reveal = () => {};
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const place = link.getAttribute("href").slice(1);
    reveal(place);
    const target = document.getElementById(place);
    if (!target) return;
    event.preventDefault();
    if (!target.hasAttribute("tabindex")) target.tabIndex = -1;
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  });

  // ---- Print: nothing stays folded.
  let unfolded = [];
  const unfold = () => {
    unfolded = [...unfolded, ...all("details:not([open])")];
    unfolded.forEach((part) => { part.open = true; });
  };
  const fold = () => {
    unfolded.forEach((part) => { part.open = false; });
    unfolded = [];
  };
  window.addEventListener("beforeprint", unfold);
  window.addEventListener("afterprint", fold);
  window.matchMedia("print").addEventListener("change", (change) => (change.matches ? unfold() : fold()));

  // ---- Pictures: every one opens large. Of a group only one is a stop of the Tab key; arrow keys go on from there.
  const viewer = one("#viewer");
  let shown = [], place = 0, opener = null;

  function dress(root) {
    all("figure.picture > img", root).forEach((img) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "open";
      button.title = "Open large";
      img.replaceWith(button);
      button.append(img);
    });
    all(".pictures, .pair, .subgroups", root).forEach((group) => {
      all("button.open", group).forEach((button, number) => { button.tabIndex = number ? -1 : 0; });
    });
  }

  function view(number) {
    place = (number + shown.length) % shown.length;
    const img = one("img", shown[place]), large = document.createElement("img");
    large.src = img.src;
    large.alt = img.alt;
    const [width, height] = [Number(img.getAttribute("width")), Number(img.getAttribute("height"))];
    const fits = Math.min((window.innerWidth - 48) / width, (window.innerHeight - 190) / height);
    const tiny = img.classList.contains("pixelated");
    // Whole pixels where pixels are to be seen; a photograph is not blown up without end.
    const times = tiny && fits >= 1 ? Math.floor(Math.min(fits, 640 / Math.max(width, height))) || 1 : Math.min(fits, 4);
    large.width = Math.max(1, Math.round(width * times));
    large.height = Math.max(1, Math.round(height * times));
    large.classList.toggle("pixelated", tiny);
    one(".viewer-stage", viewer).replaceChildren(large);
    const about = one("h3, h4", shown[place].closest("article, tr") || document.createElement("p"));
    const caption = one("figcaption", shown[place].closest("figure"));
    one("#viewer-title").textContent = [about, caption].filter(Boolean).map((part) => part.textContent.trim()).join(": ");
    one(".viewer-count", viewer).textContent = `${place + 1} of ${shown.length}`;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.open");
    if (!button) return;
    opener = button;
    shown = all("button.open", button.closest("section") || document).filter((each) => each.checkVisibility());
    view(shown.indexOf(button));
    viewer.showModal();
    one(".close", viewer).focus();
  });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    if (viewer.open) {
      event.preventDefault();
      view(place + step);
      return;
    }
    const here = event.target.closest(".pictures button.open, .pair button.open, .subgroups button.open, #map a.mutant");
    if (!here) return;
    const group = here.closest(".pictures, .pair, .subgroups, .mutants");
    const others = all("button.open, a.mutant", group).filter((each) => !each.classList.contains("rest"));
    const next = others[(others.indexOf(here) + step + others.length) % others.length];
    event.preventDefault();
    here.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  one(".close", viewer).addEventListener("click", () => viewer.close());
  one(".previous", viewer).addEventListener("click", () => view(place - 1));
  one(".next", viewer).addEventListener("click", () => view(place + 1));
  viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
  viewer.addEventListener("close", () => {
    one(".viewer-stage", viewer).replaceChildren();
    const back = shown[place] && shown[place].isConnected ? opener : null;
    if (back) back.focus();
  });

  // ---- The map of features.
  const map = one("svg.map");
  if (map) {
    const choices = [one("#map-a"), one("#map-b")];
    const said = one(".map-said"), hint = said.textContent;
    const legend = one(".map-legend");
    const shapes = Object.fromEntries(["a", "b", "rest"].map((group) => [group, one(`.seed.${group}`, legend).getAttribute("d")]));
    const groups = ["a", "b", "rest"];
    const paint = () => {
      const [a, b] = choices.map((choice) => choice.value);
      const of = (part) => (part.dataset.l === a ? "a" : part.dataset.l === b ? "b" : "rest");
      const mark = (part, group) => groups.forEach((each) => part.classList.toggle(each, each === group));
      all(".seed", map).forEach((part) => {
        mark(part, of(part));
        part.setAttribute("d", shapes[of(part)]);
      });
      let first = true;
      all(".mutant", map).forEach((part) => {
        const group = of(part);
        mark(part, group);
        all(".ring", part).forEach((ring) => mark(ring, group));
        if (part.tagName !== "a") return;
        const stop = group !== "rest" && first;
        part.setAttribute("tabindex", stop ? "0" : "-1");
        if (stop) first = false;
      });
      choices.forEach((choice, number) => {
        one(`[data-name="${groups[number]}"]`, legend).textContent = choice.selectedOptions[0].textContent;
      });
    };
    const tell = (event) => {
      const part = event.target.closest(".mutant");
      const seed = event.target.closest(".seed");
      const option = seed && [...choices[0].options].find((each) => each.value === seed.dataset.l);
      if (part) said.textContent = part.getAttribute("aria-label") || part.dataset.words;
      else if (option) said.textContent = `seed input: ${option.textContent}`;
    };
    choices.forEach((choice) => choice.addEventListener("change", paint));
    map.addEventListener("pointerover", tell);
    one("#map").addEventListener("focusin", tell);  // on the drawing itself it would make the drawing a stop of the Tab key
    map.addEventListener("pointerleave", () => { said.textContent = hint; });
    one(".row-of-choices").hidden = false;
    paint();
  }

  // ---- The gallery: filters, a search, pages.
  const gallery = one("#defects .gallery");
  if (gallery) {
    const filters = one("#defects .filters"), pages = one("#defects .pages");
    const selects = all("select[data-filter]", filters), search = one("input", filters), output = one("output", filters);
    const rest = one("#more-defects");
    const cards = [...gallery.children, ...(rest ? rest.content.querySelectorAll(".defect") : [])];
    const words = new Map();
    const size = 24;
    let data = null, page = 0, chosen = cards;

    const said = (card) => {
      if (!words.has(card)) words.set(card, card.textContent.toLowerCase());
      return words.get(card);
    };
    const matches = (card, text) =>
      selects.every((select) => !select.value || card.dataset[select.dataset.filter].split(" ").includes(select.value)) &&
      text.every((word) => said(card).includes(word));

    // Pictures of later pages are in the page once each, as data, and become pictures when their card is turned to.
    const develop = (card) => all("img[data-p]", card).forEach((img) => {
      data = data || JSON.parse(one("#pictures").textContent);
      img.src = data[Number(img.dataset.p)];
      img.removeAttribute("data-p");
    });

    const turn = (to) => {
      const last = Math.max(0, Math.ceil(chosen.length / size) - 1);
      page = Math.min(Math.max(0, to), last);
      const visible = chosen.slice(page * size, (page + 1) * size);
      visible.forEach(develop);
      gallery.replaceChildren(...visible);
      dress(gallery);
      pages.hidden = last === 0;
      one(".page", pages).textContent = `Page ${page + 1} of ${last + 1}`;
      one(".previous", pages).disabled = page === 0;
      one(".next", pages).disabled = page === last;
    };
    const choose = () => {
      const text = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      chosen = cards.filter((card) => matches(card, text));
      output.textContent = `${chosen.length} of ${cards.length} defects match`;
      turn(0);
    };
    const clear = () => {
      selects.forEach((select) => { select.value = ""; });
      search.value = "";
      choose();
    };
    reveal = (wanted) => {
      const card = cards.find((each) => each.id === wanted);
      if (!card || card.isConnected) return;
      clear();
      turn(Math.floor(cards.indexOf(card) / size));
    };
    const turned = (to) => {
      turn(to);
      one("#defects-title").scrollIntoView();
      const first = gallery.firstElementChild;
      if (first) first.focus({ preventScroll: true });
    };
    selects.forEach((select) => select.addEventListener("change", choose));
    search.addEventListener("input", choose);
    one(".clear", filters).addEventListener("click", clear);
    one(".previous", pages).addEventListener("click", () => turned(page - 1));
    one(".next", pages).addEventListener("click", () => turned(page + 1));
    filters.hidden = false;
    choose();
  }
  dress(document);

  // ---- What scrolls sideways is reached by the keyboard, too.
  const reach = () => all(".scroll").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Table that moves sideways");
    } else {
      ["tabindex", "role", "aria-label"].forEach((name) => box.removeAttribute(name));
    }
  });
  reach();
  window.addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
})();
