// The guide stands until the reader closes it; the browser remembers that, nobody else.
const SEEN = "fleet-guide-seen";

function remembered() {
  try {
    return window.localStorage.getItem(SEEN) !== null;
  } catch {
    return true; // a browser that keeps nothing would show it for ever
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
      // it is closed at least for now
    }
    guide.hidden = true;
    document.querySelector("[data-testid=stMain]")?.focus();
  };
}
