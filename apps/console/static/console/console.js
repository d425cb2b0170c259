// Live parts of a page: fetched anew every two seconds, morphed in place, nothing else changes.
//
// <div id="…" data-live="on"> is such a part.  The server answers the page's own address with that part
// alone when the header X-Live names it, and 304 while it has not changed; data-live="off" ends it.
"use strict";

(() => {
  const PERIOD = 2000;

  // A form that somebody has begun to fill in stays about its own question, whatever became of that meanwhile.
  function isBegun(form) {
    if ("begun" in form.dataset) return true;
    return [...form.elements].some((field) =>
      field.type === "radio" || field.type === "checkbox"
        ? field.checked !== field.defaultChecked
        : field.tagName === "TEXTAREA" && field.value !== field.defaultValue);
  }

  // Their Actions, told to the server: it leaves each a place, with what became of the question.
  const begun = () =>
    [...document.querySelectorAll("form[data-action]")].filter(isBegun).map((form) => form.dataset.action).join(",");

  function morph(part, html) {
    Idiomorph.morph(part, html, {
      morphStyle: "outerHTML",
      ignoreActiveValue: true,
      callbacks: {
        // A form being filled in stays as it is while it is about the same thing.
        beforeNodeMorphed: (old, fresh) => !(old.dataset && fresh.id === old.id && ("keep" in old.dataset || "keep" in fresh.dataset)),
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
        const held = begun();
        if (held) headers["X-Held"] = held;
        const part = document.getElementById(id);
        if (!part) return;
        const answer = await fetch(part.dataset.src || location.href, { headers, cache: "no-store", redirect: "manual" });
        if (answer.status === 200) {
          const html = await answer.text();
          // Begun while this was under way: ask again before anything changes.
          if (begun() !== held) return;
          etag = answer.headers.get("ETag") || "";
          morph(document.getElementById(id), html);
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
