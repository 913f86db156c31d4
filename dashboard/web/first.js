// Runs before Streamlit. It would look for its server below the page of a deep link first, with two 404s in the console.
(() => {
  const parts = location.pathname.replace(/\/+$/, "").split("/");
  if (PAGES.includes(parts.at(-1))) window.__streamlit = { BACKEND_BASE_URL: location.origin + parts.slice(0, -1).join("/") + "/" };

  // Marks the body once the page is drawn and no longer changes, for screenshots and tests of pages.
  const BUSY = "[data-testid=stSkeleton],[data-testid=stAppSkeleton],[data-testid=stSpinner],[data-stale=true]";
  const isDrawn = () => {
    const app = document.querySelector("[data-testid=stApp]");
    const charts = [...document.querySelectorAll("[data-testid=stPlotlyChart]")];
    return app?.dataset.testConnectionState === "CONNECTED" && app.dataset.testScriptState === "notRunning"
      && !document.querySelector(BUSY) && document.fonts.status === "loaded"
      && charts.every((chart) => chart.querySelector(".main-svg"));
  };
  let shown = null, length = null; // URL, and size of the page at the last look
  // look.css shows the content of the first page once it is drawn, or after a while: what arrives late moves nothing then.
  let looksLeft = 12;
  const reveal = setInterval(() => {
    const hasContent = document.querySelector("[data-testid=stMain] .stElementContainer");
    if (!isDrawn() && (!hasContent || looksLeft-- > 0)) return;
    document.body.dataset.shown = "true";
    clearInterval(reveal);
  }, 100);
  setInterval(() => {
    const body = document.body;
    if (location.href !== shown) {
      shown = location.href;
      length = null;
      delete body.dataset.ready;
    }
    if (body.dataset.ready) return;
    const now = isDrawn() ? body.innerHTML.length : null;
    if (now !== null && now === length) body.dataset.ready = "true";
    length = now;
  }, 150);
})();
