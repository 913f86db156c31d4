// Keeps the place in the list: scrolls to the entry of the opened finding, and back to it when it closes. Redrawn elements
// lose the focus, so the entry gets it.
const PANEL = ".finding-head";
const OPENED = ".st-key-findings_narrow .findings [aria-current] .what a";
const ENTRIES = ".findings .what a";
const TRIES = 40;
const PAUSE = 50; // milliseconds between them: two seconds for drawing a page

// Who moves on since the finding was opened keeps the focus.
let hasActed = false;
for (const act of ["keydown", "pointerdown"]) document.addEventListener(act, () => { hasActed = true; }, true);

function focused(link) {
  if (document.activeElement === document.body) link?.focus({ preventScroll: true });
}

function leadsTo(finding) {
  return (link) => new URL(link.href).searchParams.get("finding") === finding;
}

// With an open finding the list scrolls on its own. It may be drawn later than this runs, and once more after that.
function reveal(finding, tries = TRIES) {
  if (hasActed) return;
  const link = [...document.querySelectorAll(OPENED)].find(leadsTo(finding));
  if (tries) setTimeout(reveal, PAUSE, finding, tries - 1);
  if (!link || document.activeElement !== document.body) return;
  focused(link);
  const list = link.closest("[data-testid=stColumn]");
  const [inner, outer] = [link.closest("li"), list].map((each) => each.getBoundingClientRect());
  const bottom = Math.min(outer.bottom, window.innerHeight);
  if (inner.top >= outer.top && inner.bottom <= bottom) return;
  list.scrollTop += inner.top - outer.top - (bottom - outer.top - inner.height) / 2;
}

// The closed finding stays on the page until the list has its full width.
function goBack(finding, tries = TRIES) {
  const links = [...document.querySelectorAll(ENTRIES)];
  if (document.querySelector(PANEL) || !links.length) {
    if (tries) setTimeout(goBack, PAUSE, finding, tries - 1);
    return;
  }
  const link = links.find(leadsTo(finding));
  link?.closest("li").scrollIntoView({ block: "nearest" });
  focused(link);
}

// What was saved or undone stays in view while the page above it is drawn again.
function keepInView(tries = TRIES) {
  document.querySelector(".st-key-acceptance")?.scrollIntoView({ block: "nearest" });
  if (tries) setTimeout(keepInView, PAUSE, tries - 1);
}

export default function ({ data, parentElement }) {
  if (parentElement.fleetChanges < data.changes) keepInView();
  parentElement.fleetChanges = data.changes;
  const before = parentElement.fleetRevealed;
  if (before === data.finding) return;
  parentElement.fleetRevealed = data.finding;
  hasActed = false;
  if (data.finding) requestAnimationFrame(() => requestAnimationFrame(() => reveal(data.finding)));
  else if (before) goBack(before);
}
