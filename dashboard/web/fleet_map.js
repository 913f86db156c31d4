// The map of the fleet: one stop of Tab, then arrow keys; hover and focus show what a cell is. Its HTML arrives escaped.
const STEP = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const STOP = ".fleet-map a";

// Tab returns to the cell that had the focus last.
function stopAt(root, cell) {
  root.querySelectorAll('a[tabindex="0"]').forEach((other) => other.setAttribute("tabindex", "-1"));
  cell?.setAttribute("tabindex", "0");
}

// The nearest cell above or below: rows wrap where the window is narrow.
function vertical(cells, from, down) {
  const here = from.getBoundingClientRect();
  const others = cells.filter((cell) => cell.matches(".cell")).map((cell) => [cell, cell.getBoundingClientRect()]);
  const beyond = others.filter(([, box]) => (box.top - here.top) * down > 2);
  const distance = (box) => Math.abs(box.top - here.top) * 1e4 + Math.abs(box.left - here.left);
  return beyond.sort(([, one], [, other]) => distance(one) - distance(other))[0]?.[0];
}

function move(root, from, key) {
  const cells = [...root.querySelectorAll(STOP)];
  const own = [...from.closest("tr").querySelectorAll("a.cell")]; // not the link of the row's name
  if (key === "Home" || key === "End") return own.at(key === "Home" ? 0 : -1)?.focus();
  const [down, right] = STEP[key];
  const next = down ? vertical(cells, from, down) : cells[cells.indexOf(from) + right];
  next?.focus();
}

// One tooltip for all cells, next to the cell and within the window.
function tell(tip, cell) {
  tip.hidden = !cell;
  if (!cell) return;
  tip.textContent = `${cell.getAttribute("aria-label")} · click or Enter: the replica`;
  const box = cell.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(box.left, window.innerWidth - tip.offsetWidth - 8))}px`;
  const above = box.top - tip.offsetHeight - 6;
  tip.style.top = `${above > 56 ? above : box.bottom + 6}px`; // below the header
}

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".surface");
  if (root.fleetHtml !== data.html) {
    const focused = root.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    root.innerHTML = root.fleetHtml = data.html;
    root.append(Object.assign(document.createElement("div"), { className: "map-tip", hidden: true }));
    const stops = [...root.querySelectorAll(STOP)];
    const kept = focused && stops.find((each) => each.getAttribute("href") === focused);
    stopAt(root, kept ?? stops.find((each) => each.matches(".cell")) ?? stops[0]);
    kept?.focus();
  }
  const tip = root.querySelector(".map-tip");
  const cellOf = (event) => event.target.closest?.("a.cell");
  root.onpointerover = (event) => tell(tip, cellOf(event));
  root.onpointerleave = () => tell(tip, null);
  if (!root.fleetListens) {
    root.fleetListens = true; // there is no property for these events
    root.addEventListener("focusin", (event) => {
      if (event.target.matches(STOP)) stopAt(root, event.target);
      tell(root.querySelector(".map-tip"), cellOf(event));
    });
    root.addEventListener("focusout", () => tell(root.querySelector(".map-tip"), null));
  }
  root.onkeydown = (event) => {
    const cell = event.target.closest(STOP);
    if (event.key === "Escape") return tell(tip, null);
    if (!cell || !(event.key in STEP || event.key === "Home" || event.key === "End")) return;
    event.preventDefault();
    move(root, cell, event.key);
  };
}
