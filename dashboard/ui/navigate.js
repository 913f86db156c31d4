// Links between our pages keep the session: the address changes as it does when the reader goes back, and Streamlit follows.
const HANDLED = "fleetLinksHandled";

function follow(event) {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.composedPath().find((node) => node.tagName === "A" && node.matches(".stHtml a, .surface a"));
  if (!link || link.origin !== window.location.origin) return;
  event.preventDefault();
  window.history.pushState({}, "", link.href);
  window.dispatchEvent(new PopStateEvent("popstate"));
  document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
}

export default function () {
  if (document[HANDLED]) return;
  document[HANDLED] = true;
  document.addEventListener("click", follow);
}
