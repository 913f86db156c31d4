// Shows the guide until the reader closes it; only the browser remembers that.
const SEEN = "fleet-guide-seen";

function remembered() {
  try {
    return window.localStorage.getItem(SEEN) !== null;
  } catch {
    return true; // without storage it would appear on every visit
  }
}

export default function ({ data, parentElement }) {
  const surface = parentElement.querySelector(".surface");
  if (surface.dataset.shown !== data.html) {
    surface.innerHTML = data.html;
    surface.dataset.shown = data.html;
  }
  const guide = surface.querySelector(".guide");
  guide.hidden = remembered();
  guide.querySelector("button").onclick = () => {
    try {
      window.localStorage.setItem(SEEN, "yes");
    } catch {
      // without storage it is closed for this visit
    }
    guide.hidden = true;
    document.querySelector("[data-testid=stMain]")?.focus();
  };
}
