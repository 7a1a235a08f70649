"use strict";

// The evidence of a suggestion, on its page.
let shown = null;

function show(number, scroll = true) {
  for (const each of document.querySelectorAll(".on")) each.classList.remove("on");
  const item = document.getElementById(`suggestion-${number}`);
  if (!item) return;
  shown = number;
  item.classList.add("on");
  const marks = document.querySelectorAll(`.mark[data-suggestion="${number}"]`);
  for (const mark of marks) mark.classList.add("on");
  const figure = document.getElementById(`page-${item.dataset.page}`);
  const text = figure?.querySelector("pre");
  if (text) markText(text, item.dataset.quote);
  const place = marks[0] ?? figure?.querySelector("mark") ?? figure;
  // Where pages are below the suggestions, on a phone, the person stays with the suggestion.
  if (scroll && matchMedia("(min-width: 60rem)").matches) place?.scrollIntoView({ block: "nearest", behavior: "smooth" });
}

function markText(pre, quote) {
  const text = pre.textContent;
  const start = quote ? text.indexOf(quote) : -1;
  pre.textContent = text;
  if (start < 0) return;
  const range = document.createRange();
  range.setStart(pre.firstChild, start);
  range.setEnd(pre.firstChild, start + quote.length);
  range.surroundContents(document.createElement("mark"));
}

for (const kind of ["click", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const place = event.target.closest?.(".suggestion, .mark");
    if (place && place.dataset.suggestion !== shown) show(place.dataset.suggestion);
  });
}
document.addEventListener("htmx:after:swap", () => { if (shown) show(shown, false); });
