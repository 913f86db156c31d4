// Links between pages keep the session: the URL changes as with Back, and Streamlit follows.
const HANDLED = "fleetLinksHandled";
const OURS = ".stHtml a, .surface a, .find a";
const FOUND = ".find a"; // of find.js: they open a thing of the fleet that is shown
const PAGES = "[data-testid=stTopNavLink]";
const OPEN_POPOVER = "[data-testid=stPopover] button[aria-expanded=true]";
const CARRIED = ["snapshot", "at", "screenshot"]; // as in pages.py
const STILL = 2; // of these: which fleet is shown
const SCOPES = ["pool", "cluster"]; // the scope of every page; an empty one in a link leaves it
const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable=true]";
const FINDINGS = ".findings .what > a";
const ROWS = ".entries .what > a, table.plain:not(.fleet-map *) tbody tr"; // where j and k stop
const OVERLAYS = "[role=dialog], dialog[open], [data-testid=stPopoverBody]";
const keys = Object.assign(document.createElement("dialog"), { className: "keys" });
const status = Object.assign(document.createElement("div"), { className: "said", role: "status" });
const places = new Map(); // scroll positions by URL
const followed = new Map(); // which of the links to a URL was followed
let restoring = null; // a timer
let shown = window.location.href; // at the last look at the page
let dialog = null; // the URL of the dialog that is open
let compared = null; // the search on Compare, which it has again when a reader comes back
const AGES = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]]; // as in formatting.py
let pageNames = [];
let ahead = null; // ms by which the server's clock is ahead of the browser's; null: the page shows times

function pageOf(address) {
  return address.pathname.replace(/\/$/, "").split("/").pop();
}

// Carries choices of every page to the next one. Links in a page name the snapshot or time themselves, and may leave it.
function carried(link) {
  const address = new URL(link.href);
  const here = new URLSearchParams(window.location.search);
  const isPage = link.matches(PAGES);
  for (const name of [...(isPage || link.matches(FOUND) ? CARRIED : CARRIED.slice(STILL)), ...SCOPES]) {
    if (name === "pool" && here.has("across")) continue; // no scope: a name in several clusters
    if (isPage) address.searchParams.delete(name);
    if (here.has(name) && !address.searchParams.has(name)) address.searchParams.set(name, here.get(name));
  }
  for (const name of SCOPES) if (!address.searchParams.get(name)) address.searchParams.delete(name);
  if (isPage) {
    if (pageOf(window.location) === "compare") compared = here.get("search");
    if (pageOf(address) === "compare" && compared) address.searchParams.set("search", compared);
  }
  return address.href;
}

function follow(event) {
  if (event.defaultPrevented || event.button !== 0) return;
  const link = event.composedPath().find((node) => node.tagName === "A" && node.matches(`${OURS}, ${PAGES}`));
  if (!link || link.origin !== window.location.origin || link.hash || link.target) return;
  event.stopPropagation();
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return openElsewhere(link);
  event.preventDefault();
  const next = carried(link), main = document.querySelector("[data-testid=stMain]");
  followed.set(next, linksTo(next).indexOf(link));
  if (main) places.set(window.location.href, main.scrollTop); // its event may come later, for the next page
  window.history.pushState({}, "", next);
  window.dispatchEvent(new PopStateEvent("popstate"));
  if (link.closest("[data-testid=stPopoverBody]")) document.querySelector(OPEN_POPOVER)?.click(); // else it stays open
  main?.scrollTo(0, 0);
}

function linksTo(url) {
  return [...document.querySelectorAll(OURS)].filter((each) => each.checkVisibility() && carried(each) === url);
}

// Where the focus is lost, it returns to the link that led to a URL; false while there is none.
function returnFocus(left) {
  if (document.activeElement === document.body) linksTo(left)[Math.max(followed.get(left) ?? 0, 0)]?.focus({ preventScroll: true });
  return document.activeElement !== document.body;
}

// Back and Forward show a page where it was left. Streamlit draws it again, so its height grows for a while; a reader who
// scrolls or types meanwhile is not moved.
function keepPlace(event) {
  if (event.target.dataset?.testid === "stMain") places.set(window.location.href, event.target.scrollTop);
}

function restorePlace(event) {
  if (!event.isTrusted || window.location.hash) return; // a link was followed, also one within the page
  const top = places.get(window.location.href) ?? 0, left = shown;
  const end = () => clearInterval(restoring);
  let looks = 100, waits = 600; // half a minute until the page is drawn, of a slow machine
  end();
  delete document.body.dataset.ready; // first.js sets it once the page is drawn
  restoring = setInterval(() => {
    const isReady = document.body.dataset.ready;
    if (!isReady) document.querySelector("[data-testid=stMain]")?.scrollTo(0, top);
    if (isReady ? returnFocus(left) || !looks-- : !waits--) end();
  }, 50);
  for (const name of ["wheel", "keydown", "pointerdown"]) document.addEventListener(name, end, { once: true, capture: true });
}

// A new tab or window, which the browser opens after the click, gets the same choices. Streamlit would follow the link in this
// tab.
function openElsewhere(link) {
  const own = link.href;
  link.href = carried(link);
  setTimeout(() => (link.href = own));
}

// The same for the middle button and the context menu.
function prepare(event) {
  const link = event.target.closest?.(PAGES);
  if (link) link.href = carried(link);
}

// Screen readers announce the header only when its data becomes stale: it is redrawn every few seconds, in any element.
function announce() {
  const text = document.querySelector(".asof .late")?.dataset.status ?? "";
  if (status.textContent !== text) status.textContent = text;
}

// Dialogs and popovers are outside of the element that has the theme; the root passes it on, so light-dark() follows there, too.
function shareTheme() {
  const app = document.querySelector("[data-testid=stApp]");
  const share = () => (document.documentElement.style.colorScheme = getComputedStyle(app).colorScheme);
  new MutationObserver(share).observe(app, { attributes: true, attributeFilter: ["class"] });
  share();
}

// Streamlit keeps the theme by the path at which it was loaded, so every page gets the choice.
const themeKey = (path) => `stActiveTheme-${path}-v2`;

function chooseTheme(event) {
  const theme = event.target.closest?.(".stHtml [data-theme]")?.dataset.theme;
  if (!theme) return;
  const base = new URL(document.querySelector(PAGES).href).pathname.replace(/[^/]*$/, "");
  for (const path of [window.location.pathname, ...pageNames.map((name) => base + name)]) {
    window.localStorage.setItem(themeKey(path), JSON.stringify(theme));
  }
  window.location.reload();
}

function markTheme() {
  const unmarked = document.querySelectorAll(".stHtml [data-theme]:not([aria-pressed])"); // a choice loads the page again
  if (!unmarked.length) return;
  const kept = JSON.parse(window.localStorage.getItem(themeKey(window.location.pathname)) ?? '"System"');
  unmarked.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.theme === kept)));
}

// A chart is as wide as the window; print scales it to the page, so that no bar is cut.
function scaleCharts() {
  for (const svg of document.querySelectorAll("[data-testid=stPlotlyChart] .main-svg:not([viewBox])")) {
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  }
}

function unscaleCharts() {
  document.querySelectorAll("[data-testid=stPlotlyChart] .main-svg").forEach((svg) => svg.removeAttribute("viewBox"));
}

// Marks the entry that leads to a group of pages. Streamlit marks a page of its own with "page".
function markParent(name) {
  for (const link of document.querySelectorAll(PAGES)) {
    const isParent = Boolean(name) && new URL(link.href).pathname.endsWith(`/${name}`);
    if (isParent) link.setAttribute("aria-current", "true");
    else if (link.getAttribute("aria-current") === "true") link.removeAttribute("aria-current");
  }
}

// Copies the code next to a button.
function copy(event) {
  const link = event.target.closest?.(".stHtml [data-copy-url]");
  if (link) return copyText(link, window.location.href, link);
  const button = event.target.closest?.(".stHtml [data-copy-code]");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  copyText(button, code.innerText, code); // of copying.js
}

// Ages in place of times, on a page that moves.
function showAges() {
  for (const each of document.querySelectorAll("time[data-age]")) {
    each.dataset.time ??= each.textContent;
    const seconds = Math.max((Date.now() + ahead - Date.parse(each.dateTime)) / 1000, 0);
    const [unit, name] = AGES.find(([unit]) => seconds >= unit) ?? AGES.at(-1);
    const text = ahead === null ? each.dataset.time : each.dataset.age.replace("{}", `${Math.floor(seconds / unit)} ${name} ago`);
    if (each.textContent !== text) each.textContent = text;
  }
}

function finishPage() {
  markTheme();
  announce();
  showAges();
  shown = window.location.href;
  if (document.querySelector("[role=dialog]")) dialog = shown;
  else if (dialog) {
    setTimeout(returnFocus, 300, dialog); // after Streamlit, which returns it where it was before
    dialog = null;
  }
}

// The skip link leads to the title of the page.
function skip(event) {
  const title = event.target.closest?.("[data-testid=stSkipToContent]") && document.querySelector(".page-head h1");
  if (!title) return;
  title.tabIndex = -1;
  setTimeout(() => title.focus()); // after Streamlit's own focus
}

// Escape closes a glossary tooltip, else the finding that is open.
function close(event) {
  if (event.key !== "Escape" || event.target.closest?.(FIELDS) || document.querySelector(OVERLAYS)) return;
  if (document.activeElement?.matches("dfn.term")) document.activeElement.blur();
  else document.querySelector(".finding-head .close")?.click();
}

// j and k walk through the findings, else causes and rows of tables of a page; Enter opens the one that has the focus, as it is
// a link. ? lists all keys.
function walk(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.(FIELDS) || document.querySelector(OVERLAYS)) return;
  if (event.key === "?") return keys.showModal();
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const list = document.querySelector(".findings") ? FINDINGS : ROWS;
  const links = [...document.querySelectorAll(list)].map((each) => (each.matches("tr") ? each.querySelector("a") : each));
  const items = links.filter((each) => each?.checkVisibility());
  const opened = document.querySelector(".findings [aria-current] .what > a");
  const place = items.indexOf(items.includes(document.activeElement) ? document.activeElement : opened);
  const next = items[place < 0 ? 0 : place + step];
  next?.focus();
  next?.closest("li, tr").scrollIntoView({ block: "nearest" });
}

export default function ({ data }) {
  markParent(data.parent);
  pageNames = data.pages;
  ahead = data.now ? data.now - Date.now() : null;
  keys.innerHTML = data.keys;
  if (document[HANDLED]) return;
  document[HANDLED] = true;
  document.body.append(status, keys);
  keys.onclick = () => keys.close();
  shareTheme();
  document.addEventListener("keydown", close);
  document.addEventListener("keydown", walk);
  document.addEventListener("scroll", keepPlace, true); // does not bubble
  window.addEventListener("popstate", restorePlace);
  new MutationObserver(finishPage).observe(document.body, { childList: true, subtree: true });
  finishPage();
  setInterval(showAges, 5_000);
  window.addEventListener("beforeprint", scaleCharts);
  window.addEventListener("afterprint", unscaleCharts);
  document.addEventListener("click", follow, true);
  document.addEventListener("click", copy);
  document.addEventListener("click", chooseTheme);
  document.addEventListener("click", skip);
  document.addEventListener("pointerover", prepare);
  document.addEventListener("focusin", prepare);
}
