// Says whether the page is live, and keeps streams few: a hidden tab has none. htmx does the rest.
"use strict";
(() => {
  const pulse = document.getElementById("pulse");
  const text = document.getElementById("pulse-text");
  let source = null;

  function say(live) {
    pulse.hidden = false;
    pulse.classList.toggle("is-live", live);
    text.textContent = live ? "live" : "not live";
  }

  // Fetches the part that lives anew; the new element opens a stream of its own.
  function refresh() {
    const live = document.getElementById("live");
    if (live) htmx.ajax("GET", location.href, { source: live, target: "#live", select: "#live", swap: "outerHTML" });
  }

  document.addEventListener("htmx:sseOpen", (event) => {
    source = event.detail.source;
    say(true);
  });
  document.addEventListener("htmx:sseError", () => say(false));

  // Nobody's selection is taken away while they copy: what came meanwhile is fetched afterwards.
  let missed = false;
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (!getSelection().isCollapsed) {
      missed = true;
      event.preventDefault();
    }
  });
  document.addEventListener("selectionchange", () => {
    if (missed && getSelection().isCollapsed) {
      missed = false;
      refresh();
    }
  });

  // A browser opens six connections to a host. Tabs that nobody sees leave them to others.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) refresh();
    else if (source) source.close();
  });
})();
