// Keeps a copy of the page, so that it opens without a network: the newest one where there is a network.
const COPY = "fedrec page";

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(caches.open(COPY).then((copy) => copy.add(self.registration.scope)));
});
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.mode === "navigate") event.respondWith(newest(event.request));
});

async function newest(request) {
  const copy = await caches.open(COPY), here = self.registration.scope;
  try {
    const found = await fetch(request);
    if (found.ok && request.url === here) await copy.put(here, found.clone());
    return found;
  } catch {
    return (await copy.match(here)) ?? Response.error();
  }
}
