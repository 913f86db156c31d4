// A chart over time: a tooltip, a click that opens the page at that time, and a drag that selects a range for Changes.
const DRAG = 5; // px from which a press is a drag
const SECOND = 1000, MINUTE = 60 * SECOND;

function written(time, precise) {
  const text = new Date(time).toISOString();
  return `${text.slice(0, precise ? 19 : 16)}Z`;
}

function spoken(time) {
  const day = new Date(time).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
  return `${day} ${written(time).slice(11, 16)}`;
}

// Tooltips are shown at once; a browser would wait, and show that of the whole chart.
function takeTitles(svg) {
  svg.setAttribute("aria-label", [...svg.children].filter((each) => /^(title|desc)$/.test(each.tagName)).map((each) => each.textContent).join(". "));
  for (const title of svg.querySelectorAll("title")) {
    if (title.parentElement !== svg) title.parentElement.dataset.tip = title.textContent;
    title.remove();
  }
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".surface");
  if (root.fleetHtml !== data.html) {
    root.innerHTML = data.html;
    root.fleetHtml = data.html;
    takeTitles(root.querySelector("svg"));
  }
  const svg = root.querySelector("svg"), tip = root.querySelector(".tip"), go = root.querySelector(".go");
  const changes = root.querySelector(".changes");
  const [since, until, top, bottom] = ["since", "until", "top", "bottom"].map((name) => Number(svg.dataset[name]));
  const place = (event) => { // as a share of the width, and in px
    const box = svg.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, event.clientY - box.top];
  };
  const timeAt = (share) => since + Math.min(Math.max(share, 0), 1) * (until - since);
  const precise = (until - since) / svg.getBoundingClientRect().width < MINUTE;
  const isInside = ([share, y]) => share >= 0 && share <= 1 && y >= top && y <= bottom;
  let start = null;

  const brush = () => svg.querySelector(".brush") ?? svg.appendChild(document.createElementNS(svg.namespaceURI, "rect"));
  const select = (from, to) => {
    const band = brush();
    band.setAttribute("class", "brush");
    const share = (time) => `${(time / (until - since)) * 100}%`;
    Object.entries({ x: share(from - since), y: top, width: share(to - from), height: bottom - top }).forEach(([name, value]) => band.setAttribute(name, value));
    const address = new URL(changes.href);
    address.searchParams.set("from", written(from, precise));
    address.searchParams.set("to", written(to, precise));
    changes.href = address.href;
    changes.textContent = `Changes ${spoken(from)} – ${spoken(to)} UTC`;
  };
  const clear = () => {
    svg.querySelector(".brush")?.remove();
    changes.href = changes.dataset.whole;
    changes.textContent = changes.dataset.text;
  };
  const hide = () => (tip.hidden = true);

  svg.onpointerdown = (event) => {
    if (event.button !== 0 || !isInside(place(event))) return;
    start = event;
    svg.setPointerCapture(event.pointerId);
  };
  svg.onpointermove = (event) => {
    const [x] = place(event);
    if (start && Math.abs(event.clientX - start.clientX) > DRAG) {
      const times = [timeAt(place(start)[0]), timeAt(x)].sort((one, other) => one - other);
      select(...times);
      return hide();
    }
    const under = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-tip]");
    if (!under || !svg.contains(under)) return hide();
    const time = under.dataset.at ? Number(under.dataset.at) : timeAt(x);
    tip.textContent = `${under.dataset.tip}\nClick: open ${spoken(time)} UTC`;
    tip.hidden = false;
    const box = root.getBoundingClientRect();
    const room = box.width - tip.offsetWidth;
    tip.style.left = `${Math.max(Math.min(event.clientX - box.left + 14, room), 0)}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  };
  svg.onpointerup = (event) => {
    const begun = start;
    start = null;
    if (!begun || Math.abs(event.clientX - begun.clientX) > DRAG) return;
    if (svg.querySelector(".brush")) return clear();
    const mark = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-at]");
    const address = new URL(data.at, window.location.href);
    address.searchParams.set("at", written(mark ? Number(mark.dataset.at) : timeAt(place(event)[0]), precise || mark));
    go.href = address.href;
    go.click(); // navigate.js follows it
  };
  svg.onpointerleave = hide;
  svg.onpointercancel = () => (start = null);
  root.onkeydown = (event) => event.key === "Escape" && clear();
}
