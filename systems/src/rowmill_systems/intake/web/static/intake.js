"use strict";

// A file that was read has pages to show.
document.addEventListener("state", (event) => {
  if (event.detail === "completed" || event.detail === "failed") location.reload();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("#apply-sure");
  if (!button) return;
  button.disabled = true;
  for (const item of document.querySelectorAll("li.pending")) {
    if (Number(item.dataset.confidence) >= 0.9) await post(item.querySelector("button"));
  }
  await refresh();
});

// The evidence of a suggestion, on its page.
function show(number) {
  for (const shown of document.querySelectorAll(".on")) shown.classList.remove("on");
  const item = document.querySelector(`li[data-suggestion="${number}"]`);
  const marks = document.querySelectorAll(`.mark[data-suggestion="${number}"]`);
  if (!item) return;
  item.classList.add("on");
  for (const mark of marks) mark.classList.add("on");
  const figure = document.getElementById(`page-${item.dataset.page}`);
  const text = figure?.querySelector("pre");
  if (text) markText(text, item.dataset.quote);
  (marks[0] ?? figure?.querySelector("mark") ?? figure)?.scrollIntoView({ block: "center", behavior: "smooth" });
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
    const place = event.target.closest("li[data-suggestion], .mark");
    if (place && !event.target.closest("button")) show(place.dataset.suggestion);
  });
}

// Upload, one file after another, with progress.
const form = document.getElementById("upload");
if (form) {
  const input = form.querySelector("input[type=file]");
  const bar = form.querySelector("progress");
  const drop = form.querySelector(".drop");

  const send = (file) => new Promise((resolve) => {
    const body = new FormData();
    body.append("doc_type", form.elements.doc_type.value);
    body.append("file", file);
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.upload.onprogress = (event) => { bar.value = event.loaded / (event.total || 1); };
    request.onload = () => {
      let problem = {};
      try { problem = JSON.parse(request.responseText); } catch { /* not of ours */ }
      resolve(request.status === 201 ? null : problem.message ?? `refused (${request.status})`);
    };
    request.onerror = () => resolve("the server does not answer");
    request.send(body);
  });

  const sendAll = async (files) => {
    bar.hidden = false;
    const refused = [];
    for (const file of files) {
      const problem = await send(file);
      if (problem) refused.push(`${file.name}: ${problem}`);
      await refresh().catch(() => {});
    }
    bar.hidden = true;
    say(refused.length ? refused.join("\n") : `${files.length} uploaded`);
    form.reset();
  };

  form.addEventListener("submit", (event) => { event.preventDefault(); sendAll([...input.files]); });
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    sendAll([...event.dataTransfer.files]);
  });
}
