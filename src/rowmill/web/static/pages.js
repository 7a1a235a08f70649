"use strict";

const EVERY = 1500;
const said = document.getElementById("said");
const refreshed = document.getElementById("refresh");

function say(text) {
  said.textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => { said.textContent = ""; }, 8000);
}

// Puts what the server says now in the place of what it said before.
async function refresh() {
  if (!refreshed) return;
  const answer = await fetch(refreshed.dataset.url);
  if (!answer.ok) return;
  const before = refreshed.querySelector("[data-state]")?.dataset.state;
  refreshed.innerHTML = await answer.text();
  const after = refreshed.querySelector("[data-state]")?.dataset.state;
  if (before !== after) document.dispatchEvent(new CustomEvent("state", { detail: after }));
}

function isOpen() {
  return Number(refreshed?.querySelector("[data-open]")?.dataset.open) > 0;
}

// Nobody wants a field to be emptied while they write in it.
function isWrittenIn() {
  return refreshed?.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
}

async function watch() {
  const began = performance.now();
  try {
    if (isOpen() && !isWrittenIn() && !document.hidden) await refresh();
  } catch {
    say("The server does not answer. Trying again.");
  }
  // A server that takes long to answer is asked less often.
  setTimeout(watch, Math.max(EVERY, 10 * (performance.now() - began)));
}

async function post(button) {
  button.disabled = true;
  const answer = await fetch(button.dataset.post, { method: "POST" });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({ message: answer.statusText }));
    say(answer.status === 409 ? `Not done: ${problem.message}.` : problem.message);
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-post]");
  if (!button) return;
  await post(button);
  await refresh();
});

// Forms that work without this script too: the page that answers one holds the reason, if it was not done.
document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-send]");
  if (!form) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body });
    if (!answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      say(page.querySelector("[role=alert]")?.textContent.trim() ?? answer.statusText);
    }
    await refresh();
  } catch {
    say("The server does not answer. Try again.");
  }
  for (const button of form.querySelectorAll("button")) button.disabled = false;
});

watch();
