// Live parts of a page: fetched anew every two seconds, morphed in place, nothing else changes.
//
// <div id="…" data-live="on"> is such a part.  The server answers the page's own address with that part
// alone when the header X-Live names it, and 304 while it has not changed; data-live="off" ends it.
"use strict";

(() => {
  const PERIOD = 2000;

  function morph(part, html) {
    Idiomorph.morph(part, html, {
      morphStyle: "outerHTML",
      ignoreActiveValue: true,
      callbacks: {
        // A form being filled in stays as it is while it is about the same thing.
        beforeNodeMorphed: (old, fresh) => !(old.dataset && "keep" in old.dataset && fresh.id === old.id),
        // What a person opened, closed or chose stays so.
        beforeAttributeUpdated: (name, node) =>
          !((name === "open" && node.tagName === "DETAILS") || (name === "checked" && node.tagName === "INPUT")),
      },
    });
  }

  function follow(id) {
    let etag = "";
    let timer = 0;
    let asking = false;

    async function ask() {
      clearTimeout(timer);
      if (asking || document.hidden) return;
      asking = true;
      let again = true;
      try {
        const headers = { "X-Live": id };
        if (etag) headers["If-None-Match"] = etag;
        const part = document.getElementById(id);
        if (!part) return;
        const answer = await fetch(part.dataset.src || location.href, { headers, cache: "no-store", redirect: "manual" });
        if (answer.status === 200) {
          etag = answer.headers.get("ETag") || "";
          morph(document.getElementById(id), await answer.text());
          again = document.getElementById(id)?.dataset.live === "on";
        } else if (answer.status !== 304) {
          // Signed out (a redirect, told as status 0), or not allowed any more: the page stays as it is.
          again = answer.status >= 500;
        }
      } catch {
        // The service may be restarting: ask again.
      } finally {
        asking = false;
        if (again) timer = setTimeout(ask, PERIOD);
        else document.removeEventListener("visibilitychange", ask);
      }
    }

    // A hidden page asks nothing; back in sight it is right at once.
    document.addEventListener("visibilitychange", ask);
    timer = setTimeout(ask, PERIOD);
  }

  for (const part of document.querySelectorAll('[data-live="on"]')) follow(part.id);
})();
