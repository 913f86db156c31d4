// Opens a URL within this session, once: the URL changes as with Back, and Streamlit follows.
export default function ({ data }) {
  const address = new URL(data.address, window.location.href);
  if (address.origin !== window.location.origin || address.href === window.location.href) return;
  window.history.pushState({}, "", address.href);
  window.dispatchEvent(new PopStateEvent("popstate"));
  document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
}
