// The search, an overlay on every page, and the choice of the scope. The server answers questions; hits are links, which
// navigate.js follows. The browser keeps recent ones. Texts are foreign: they are set as text only.
const OPENER = ".stHtml [data-find]";
const MOST_RECENT = 5;
const PAUSE = 80; // ms without a key before a question
const PATIENCE = 2_000; // ms without an answer before it is asked again: one is lost while a page changes
const STEP = { ArrowDown: 1, ArrowUp: -1 };
const OF_PAGE = ["snapshot", "at", "screenshot"]; // navigate.js adds those of the page: a recent hit keeps none
const LABELS = { all: "Search pools, replicas, settings, findings, rules", scope: "Cluster or pool" };
const FRAME = `
  <input type="text" role="combobox" aria-expanded="true" aria-autocomplete="list" aria-controls="find-hits" autocomplete="off" spellcheck="false">
  <div id="find-hits" role="listbox" aria-label="Hits"></div>
  <p class="none" role="status"></p>
  <p class="keys"><kbd>↑</kbd> <kbd>↓</kbd> select · <kbd>Enter</kbd> open · <kbd>Esc</kbd> close<span> · names with commas compare replicas</span></p>`;

const recentKey = () => `fleet-recent ${new URL(".", window.location.href).pathname}`;

function recent() {
  try {
    const kept = JSON.parse(window.localStorage.getItem(recentKey()) ?? "[]");
    return Array.isArray(kept) ? kept.filter((each) => typeof each?.name === "string" && typeof each.url === "string") : [];
  } catch {
    return []; // no storage, or not ours
  }
}

function remember(hit) {
  const url = new URL(hit.href);
  OF_PAGE.forEach((name) => url.searchParams.delete(name));
  const kept = { name: hit.querySelector(".name").textContent, remark: hit.dataset.kind, url: url.pathname + url.search };
  const others = recent().filter((each) => each.url !== kept.url);
  try {
    window.localStorage.setItem(recentKey(), JSON.stringify([kept, ...others].slice(0, MOST_RECENT)));
  } catch {
    // without storage there are no recent ones
  }
}

function made(name, attributes, ...content) {
  const element = document.createElement(name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...content);
  return element;
}

const hitsOf = (dialog) => [...dialog.querySelectorAll("[role=option]")];

function select(dialog, hit) {
  dialog.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
  hit?.setAttribute("aria-selected", "true");
  dialog.querySelector("input").setAttribute("aria-activedescendant", hit?.id ?? "");
  hit?.scrollIntoView({ block: "nearest" });
}

function show(dialog, groups) {
  let number = 0;
  const option = (group, { name, remark, url }) => made(
    "a",
    { role: "option", id: `find-${number++}`, href: url, tabindex: "-1", "aria-selected": "false", "data-kind": group.title === "Recent" ? remark : group.title },
    made("span", { class: "name" }, name), " ", made("span", { class: "remark" }, remark ?? ""),
  );
  dialog.querySelector("[role=listbox]").replaceChildren(...groups.filter((group) => group.hits.length).map((group) => {
    const more = group.more ? ` · ${group.more.toLocaleString("en-US")} more match` : "";
    const title = made("p", { "aria-hidden": "true" }, group.title + more);
    return made("div", { role: "group", "aria-label": group.title }, title, ...group.hits.map((hit) => option(group, hit)));
  }));
  dialog.querySelector(".none").textContent = number ? "" : "Nothing matches.";
  select(dialog, hitsOf(dialog)[0]);
}

function ask(dialog) {
  clearTimeout(dialog.pause);
  const text = dialog.querySelector("input").value.trim();
  dialog.question = { text, number: (dialog.question?.number ?? 0) + 1, isScope: dialog.isScope };
  dialog.isAnswered = false;
  send(dialog);
}

function send(dialog) {
  if (!dialog.open || dialog.isAnswered) return;
  dialog.ask?.(dialog.question);
  dialog.pause = setTimeout(send, PATIENCE, dialog);
}

function openHit(dialog) {
  dialog.querySelector("[aria-selected=true]")?.click();
}

// An answer to fewer words than are typed by now is none: Enter would open a hit that nobody searched for.
function answered(dialog, found) {
  const isAsked = found.number === dialog.question?.number && dialog.question.text === dialog.querySelector("input").value.trim();
  if (!dialog.open || !isAsked || dialog.isAnswered) return;
  dialog.isAnswered = true;
  clearTimeout(dialog.pause);
  const kept = dialog.question.text || dialog.isScope ? [] : recent();
  show(dialog, [{ title: "Recent", hits: kept }, ...found.groups]);
  if (dialog.isEntered) openHit(dialog);
  dialog.isEntered = false;
}

function open(dialog, isScope) {
  const input = dialog.querySelector("input");
  dialog.isScope = isScope;
  dialog.isEntered = false;
  dialog.setAttribute("aria-label", isScope ? "Scope" : "Search");
  dialog.querySelector(".keys span").hidden = isScope;
  input.setAttribute("aria-label", LABELS[isScope ? "scope" : "all"]);
  input.placeholder = input.getAttribute("aria-label");
  input.value = "";
  show(dialog, [{ title: "Recent", hits: isScope ? [] : recent() }]);
  dialog.querySelector(".none").textContent = "";
  dialog.inert = false; // Streamlit makes everything outside of its own dialog inert
  if (!dialog.open) dialog.showModal();
  input.focus();
  ask(dialog);
}

// Enter before the answer to the last word opens the first hit of that answer.
function pressed(dialog, event) {
  event.stopPropagation(); // keys of the page are text here
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    return dialog.querySelector("input").select();
  }
  if (event.isComposing || !(event.key in STEP || event.key === "Enter")) return;
  event.preventDefault();
  const hits = hitsOf(dialog), place = hits.findIndex((hit) => hit.getAttribute("aria-selected") === "true");
  if (event.key in STEP) return select(dialog, hits.at((place + STEP[event.key]) % hits.length));
  if (dialog.isAnswered) return openHit(dialog);
  dialog.isEntered = true;
  ask(dialog);
}

// Ctrl-K, and a slash outside of a field.
function opens(event) {
  const typed = event.target.closest?.("input, textarea, [contenteditable=true]");
  const isWanted = (event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typed);
  return isWanted && !event.altKey;
}

function build() {
  const dialog = made("dialog", { class: "find" });
  dialog.innerHTML = FRAME;
  document.body.append(dialog);
  dialog.addEventListener("keydown", (event) => pressed(dialog, event));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.querySelector("input").addEventListener("input", () => {
    clearTimeout(dialog.pause);
    dialog.isAnswered = false;
    dialog.pause = setTimeout(ask, PAUSE, dialog);
  });
  document.addEventListener("keydown", (event) => {
    if (!opens(event)) return;
    event.preventDefault();
    open(dialog, false);
  });
  // Before navigate.js, which follows the link.
  window.addEventListener("click", (event) => {
    const opener = event.target.closest?.(OPENER);
    if (opener) return open(dialog, opener.dataset.find === "scope");
    const hit = event.target.closest?.("dialog.find a");
    if (!hit) return;
    if (!dialog.isScope) remember(hit);
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey) dialog.close();
  }, true);
  return dialog;
}

export default function ({ data, setTriggerValue }) {
  const dialog = document.querySelector("dialog.find") ?? build();
  dialog.ask = (question) => setTriggerValue("question", question);
  if (data.found) answered(dialog, data.found);
}
