// SPDX-License-Identifier: Apache-2.0
"use strict";
(function () {
  const cards = JSON.parse(document.getElementById("cards").textContent);
  const element = (tag, text, parent) => {
    const made = document.createElement(tag);
    made.textContent = text;
    parent.append(made);
    return made;
  };

  function show(box, life) {
    box.replaceChildren();
    if (life < 0) {
      element("p", "Point at an area, or press Tab and the arrow keys, to see whose it is.", box).className = "soft";
      return;
    }
    const card = cards[life];
    const title = element("h3", card.short + " ", box);
    if (card.name !== card.short) element("em", card.name, title);
    const list = element("dl", "", box);
    for (const [what, how] of card.lines) {
      const line = element("div", "", list);
      element("dt", what, line);
      element("dd", how, line);
    }
  }

  function pick(plot, box, life) {
    plot.classList.toggle("picked", life >= 0);
    for (const area of plot.querySelectorAll(".area")) {
      area.classList.toggle("on", life >= 0 && Number(area.dataset.life) === life);
    }
    for (const row of document.querySelectorAll(".row")) {
      row.classList.toggle("on", life >= 0 && Number(row.dataset.life) === life);
    }
    if (box) show(box, life);
  }

  for (const plot of document.querySelectorAll(".plot")) {
    const box = document.querySelector(`[data-card="${plot.dataset.view}"]`);
    const areas = [...plot.querySelectorAll(".area[data-life]")];
    const lives = areas.map((area) => Number(area.dataset.life));
    let held = -1;
    const choose = (life, stays) => {
      if (stays) held = life;
      pick(plot, box, life);
    };
    areas.forEach((area, index) => {
      area.tabIndex = index === 0 ? 0 : -1;
      area.addEventListener("pointerenter", () => choose(lives[index], false));
      area.addEventListener("click", () => choose(lives[index], true));
      area.addEventListener("focus", () => {
        areas.forEach((other) => { other.tabIndex = other === area ? 0 : -1; });
        choose(lives[index], true);
      });
    });
    plot.addEventListener("pointerleave", () => choose(held, false));
    plot.addEventListener("focusout", () => choose(-1, true));
    plot.addEventListener("keydown", (event) => {
      const at = areas.indexOf(document.activeElement);
      if (at < 0) return;
      const steps = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: areas.length - 1 };
      if (event.key === "Escape") {
        document.activeElement.blur();
      } else if (event.key in steps) {
        const next = Math.min(Math.max(steps[event.key], 0), areas.length - 1);
        areas[next].focus({ preventScroll: true });
        event.preventDefault();
      }
    });
    show(box, -1);
  }

  const first = document.querySelector(".plot");
  for (const row of document.querySelectorAll(".row")) {
    row.addEventListener("pointerenter", () => { if (Number(row.dataset.life) >= 0) pick(first, null, Number(row.dataset.life)); });
    row.addEventListener("pointerleave", () => pick(first, null, -1));
  }
})();
