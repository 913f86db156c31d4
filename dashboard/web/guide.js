// Shows the guide until the reader closes it; only the browser remembers that.
const SEEN = "fleet-guide-seen";

export default function ({ data, parentElement }) {
  const surface = parentElement.querySelector(".surface");
  if (surface.dataset.shown !== data.html) surface.innerHTML = surface.dataset.shown = data.html;
  const guide = surface.querySelector(".guide");
  try {
    guide.hidden = window.localStorage.getItem(SEEN) !== null;
  } catch {
    guide.hidden = true; // without storage it would appear on every visit
  }
  guide.querySelector("button").onclick = () => {
    guide.hidden = true;
    document.querySelector("[data-testid=stMain]")?.focus();
    window.localStorage.setItem(SEEN, "yes");
  };
}
