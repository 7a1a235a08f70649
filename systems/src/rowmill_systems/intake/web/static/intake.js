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

// Upload, one file after another, with progress.
const form = document.getElementById("upload");
if (form) {
  const input = form.querySelector("input[type=file]");
  const bar = form.querySelector("progress");

  const send = (file) => new Promise((resolve) => {
    const body = new FormData();
    body.append("doc_type", form.elements.doc_type.value);
    body.append("file", file);
    const request = new XMLHttpRequest();
    request.open("POST", form.dataset.api);
    request.upload.onprogress = (event) => { bar.value = event.loaded / (event.total || 1); };
    request.onload = () => {
      let problem = {};
      try { problem = JSON.parse(request.responseText); } catch { /* not of ours */ }
      resolve(request.status === 201 ? null : problem.message ?? `refused (${request.status})`);
    };
    request.onerror = () => resolve("the server does not answer");
    request.send(body);
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const files = [...input.files];
    const button = form.querySelector("button");
    bar.hidden = false;
    button.disabled = true;
    const refused = [];
    for (const file of files) {
      const problem = await send(file);
      if (problem) refused.push(`${file.name}: ${problem}`);
      await refresh();
    }
    bar.hidden = true;
    button.disabled = false;
    say(refused.length ? refused.join("\n") : `${files.length} uploaded`);
    form.reset();
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
}
