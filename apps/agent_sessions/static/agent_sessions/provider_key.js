// The page sends no referrer, and so its forms would come without an origin, which the service refuses.
// Sent from here they name it, to this service only.
for (const form of document.querySelectorAll("form[data-provider-key]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await fetch(window.location.href, {
      method: "POST",
      body: new FormData(form, event.submitter),
      credentials: "same-origin",
      redirect: "manual",
      referrerPolicy: "same-origin",
    });
    window.location.reload();
  });
}
