// Links between our pages keep the session: the address changes as it does when the reader goes back, and Streamlit follows.
const HANDLED = "fleetLinksHandled";
const OURS = ".stHtml a, .surface a";
const PAGES = "[data-testid=stTopNavLink]";
const OPEN_POPOVER = "[data-testid=stPopover] button[aria-expanded=true]";
const CARRIED = ["snapshot", "screenshot", "meeting"]; // as in links.py

// What holds on every page goes on to the next one, and what was left does not. Links of ours name the snapshot themselves,
// and may lead out of it.
function carried(link) {
  const address = new URL(link.href);
  const here = new URLSearchParams(window.location.search);
  const isPage = link.matches(PAGES);
  for (const name of isPage ? CARRIED : CARRIED.slice(1)) {
    if (isPage) address.searchParams.delete(name);
    if (here.has(name) && !address.searchParams.has(name)) address.searchParams.set(name, here.get(name));
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
  window.history.pushState({}, "", carried(link));
  window.dispatchEvent(new PopStateEvent("popstate"));
  if (link.closest("[data-testid=stPopoverBody]")) document.querySelector(OPEN_POPOVER)?.click(); // it would stay open
  document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
}

// A tab or a window of its own, which the browser opens at the end of the click, shows the same. Streamlit would follow the
// link in this tab.
function openElsewhere(link) {
  const own = link.href;
  link.href = carried(link);
  setTimeout(() => (link.href = own));
}

// So does one that the middle button or the menu of a link opens.
function prepare(event) {
  const link = event.target.closest?.(PAGES);
  if (link) link.href = carried(link);
}

// Readers that speak hear of the header only when its data grows stale: it is drawn anew every few seconds.
function addStatus() {
  const status = document.createElement("div");
  Object.assign(status, { className: "said", role: "status" });
  document.body.append(status);
  const tell = () => {
    const told = document.querySelector(".asof .late")?.dataset.status ?? "";
    if (status.textContent !== told) status.textContent = told;
  };
  const watch = new MutationObserver(tell);
  return () => {
    watch.disconnect();
    const header = document.querySelector(".st-key-header");
    if (header) watch.observe(header, { childList: true, subtree: true });
    tell();
  };
}

// A chart is as wide as the window; on paper it is scaled to the page, so that no bar is cut off.
function scaleCharts() {
  for (const svg of document.querySelectorAll("[data-testid=stPlotlyChart] .main-svg:not([viewBox])")) {
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
  }
}

function unscaleCharts() {
  document.querySelectorAll("[data-testid=stPlotlyChart] .main-svg").forEach((svg) => svg.removeAttribute("viewBox"));
}

// Copies what stands beside a button.
function copy(event) {
  const button = event.target.closest?.(".stHtml [data-copy-code]");
  if (!button) return;
  const code = button.parentElement.querySelector("code");
  copyText(button, code.innerText, code); // of copying.js
}

// What explains itself on focus goes away by Escape.
function close(event) {
  if (event.key === "Escape" && document.activeElement?.matches("dfn.term")) document.activeElement.blur();
}

export default function () {
  document[HANDLED]?.();
  if (document[HANDLED]) return;
  document[HANDLED] = addStatus();
  document[HANDLED]();
  document.addEventListener("keydown", close);
  window.addEventListener("beforeprint", scaleCharts);
  window.addEventListener("afterprint", unscaleCharts);
  document.addEventListener("click", follow, true);
  document.addEventListener("click", copy);
  document.addEventListener("pointerover", prepare);
  document.addEventListener("focusin", prepare);
}
