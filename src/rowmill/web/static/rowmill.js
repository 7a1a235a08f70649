"use strict";

// What pages do beyond links and forms. Every page can be read, and every form sent, without it.

const toasts = document.getElementById("toasts");

function say(text, tone = "bad") {
  const toast = document.createElement("p");
  toast.className = `toast ${tone}`;
  toast.textContent = text;
  toasts.replaceChildren(toast);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => toast.remove(), 8000);
}

// --- Theme -----------------------------------------------------------------------------------------------------------

const themes = document.getElementById("theme");
if (themes) {
  themes.hidden = false;
  themes.addEventListener("click", () => {
    const root = document.documentElement;
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const next = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    localStorage.setItem("rowmill-theme", next);
  });
}

// --- Live parts of a page --------------------------------------------------------------------------------------------

const isPoll = (event) => event.detail.ctx.sourceEvent?.type === "every";

// Asks for the live part of the page anew.
function refresh() {
  return htmx.ajax("GET", location.href, { target: "#live", select: "#live", swap: "outerMorph" });
}

function isChanged(field) {
  if (!field.matches("select")) return field.value !== field.defaultValue;
  const chosen = [...field.options].findIndex((option) => option.defaultSelected);
  return field.selectedIndex !== Math.max(chosen, 0);
}

// Nobody wants a page to move while they write, choose or read in a dialog, nor to lose what they wrote and did not send.
function isInUse(region) {
  const fields = [...region.querySelectorAll("input:not([type=checkbox], [type=file]), select, textarea")];
  const opened = region.querySelector("dialog[open], details.edit[open]") !== null;
  return opened || fields.some((field) => field === document.activeElement || isChanged(field));
}

document.addEventListener("htmx:before:request", (event) => {
  if (isPoll(event) && (document.hidden || isInUse(event.detail.ctx.sourceElement))) event.preventDefault();
});

// A page without the part that is replaced is one that says why not: its message is shown, and the part stays.
document.addEventListener("htmx:after:request", (event) => {
  const { ctx } = event.detail;
  if (ctx.response.status < 400 || ctx.text.includes('id="live"')) return;
  event.preventDefault();
  const page = new DOMParser().parseFromString(ctx.text, "text/html");
  say(page.querySelector("[role=alert]")?.textContent.trim() || "The server refused that.");
});

document.addEventListener("htmx:error", (event) => {
  if (event.detail.ctx) say("The server does not answer. Trying again.");
});

// The reason why something was not done may be above what the person looks at.
document.addEventListener("htmx:after:swap", () => {
  const alert = document.querySelector("#live [role=alert]");
  if (alert) say(alert.textContent.trim());
  tellTimes();
});

// --- Times -----------------------------------------------------------------------------------------------------------

const STEPS = [[60, 1, "second"], [3600, 60, "minute"], [86400, 3600, "hour"], [2592000, 86400, "day"],
  [31536000, 2592000, "month"], [Infinity, 31536000, "year"]];

function ago(moment) {
  const seconds = (Date.now() - moment) / 1000;
  const [size, unit, name] = STEPS.find(([below]) => Math.abs(seconds) < below);
  const number = Math.floor(Math.abs(seconds) / unit);
  if (size === 60 && number < 10) return seconds >= 0 ? "just now" : "in a moment";
  const text = `${number} ${name}${number === 1 ? "" : "s"}`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

function tellTimes() {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = ago(Date.parse(time.dateTime));
    if (time.textContent !== text) time.textContent = text;
  }
}

setInterval(tellTimes, 10_000);

// --- Forms -----------------------------------------------------------------------------------------------------------

// Filters apply as they are chosen; without this script, by their button.
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-filter]");
  if (form && event.target.matches("select")) form.requestSubmit();
});

// An empty filter has no place in the address.
document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-filter]");
  if (!form) return;
  for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
});
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form[data-filter] :disabled")) field.disabled = false;
});

// The zone lights up while a file is over it, and says what was chosen. The control itself takes the drop.
document.addEventListener("change", (event) => {
  const zone = event.target.closest(".drop");
  const names = zone?.querySelector("[data-names]");
  if (!names) return;
  const files = [...event.target.files];
  names.textContent = files.length > 3 ? `${files.length} files chosen` : files.map((file) => file.name).join(", ");
  names.hidden = files.length === 0;
});
for (const [kind, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  document.addEventListener(kind, (event) => event.target.closest?.(".drop")?.classList.toggle("over", over));
}

// Files are sent one after another, each with its progress. One that was taken appears in the list of the page.
function send(form, file, bar) {
  const body = new FormData(form);
  body.delete("file");
  body.append("file", file);
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", form.dataset.upload || form.action);
    request.setRequestHeader("accept", "application/json");
    request.upload.onprogress = (event) => { bar.value = event.loaded / (event.total || 1); };
    request.onload = () => {
      let problem = {};
      try { problem = JSON.parse(request.responseText); } catch { /* not of ours */ }
      resolve(request.status < 300 ? null : problem.message ?? `refused (${request.status})`);
    };
    request.onerror = () => resolve("the server does not answer");
    request.send(body);
  });
}

function listed(list, file) {
  const item = document.createElement("li");
  item.innerHTML = "<span></span><progress max='1' value='0'></progress>";
  item.firstChild.textContent = file.name;
  list.append(item);
  return item;
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("form[data-upload]");
  if (!form) return;
  event.preventDefault();
  const [input, list, button] = ["input[type=file]", "[data-uploads]", "button"].map((each) => form.querySelector(each));
  list.replaceChildren();
  const waiting = [...input.files].map((file) => [file, listed(list, file)]);
  button.disabled = true;
  let taken = 0;
  for (const [file, item] of waiting) {
    const problem = await send(form, file, item.lastChild);
    if (problem) {
      item.lastChild.remove();
      item.firstChild.textContent = `${file.name}: ${problem}`;
      item.className = "error";
    } else {
      taken += 1;
      item.remove();
    }
    await refresh();
  }
  button.disabled = false;
  if (taken) say(`${taken} uploaded`);
  form.reset();
  input.dispatchEvent(new Event("change", { bubbles: true }));
});

// What is to be repeated before something is destroyed: the browser says if it is not the same.
document.addEventListener("input", (event) => {
  const word = event.target.dataset.repeat;
  if (word !== undefined) event.target.setCustomValidity(event.target.value.trim() === word ? "" : `Type ${word}`);
});

// --- Dialogs ---------------------------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-dialog]");
  if (opener) document.getElementById(opener.dataset.dialog)?.showModal();
  const closer = event.target.closest("[data-close]");
  if (closer) event.target.closest("dialog")?.close();
  if (event.target.matches("dialog")) event.target.close();
  if (opener || closer) event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== " " || !event.target.matches("a[role=button]")) return;
  event.preventDefault();
  event.target.click();
});

// --- Keys ------------------------------------------------------------------------------------------------------------

function move(step) {
  const items = [...document.querySelectorAll("[data-item]")];
  if (items.length === 0) return;
  const now = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[Math.min(Math.max(now + step, 0), items.length - 1)];
  (next.querySelector("a, button") ?? next).focus();
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, select, textarea, dialog")) {
    if (event.key === "Escape" && event.target.matches("[type=search]")) event.target.blur();
    return;
  }
  const search = document.querySelector("input[type=search]");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
    search.select();
  }
  if (event.key === "j") move(1);
  if (event.key === "k") move(-1);
});
