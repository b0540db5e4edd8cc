// What is liked, in order, in this browser: IndexedDB. Where a browser refuses that, likes last as long as the page does.

const STORE = "likes", KEY = "mine";

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
  request.onblocked = () => reject(new Error("another tab holds it"));
});

export class Likes {
  constructor(name) {
    this.name = name;
  }

  // Ids as they were kept, the newest last; null where this browser keeps nothing.
  async open() {
    try {
      const asked = indexedDB.open(this.name, 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
      this.db = await done(asked);
      this.db.onversionchange = () => this.db.close(); // another tab forgets everything
      return (await done(this.db.transaction(STORE).objectStore(STORE).get(KEY))) ?? [];
    } catch {
      this.db = null;
      return null;
    }
  }

  async keep(ids) {
    if (!this.db) return;
    try {
      await done(this.db.transaction(STORE, "readwrite").objectStore(STORE).put(ids, KEY));
    } catch {
      await this.open(); // it was forgotten in another tab: begun anew
    }
  }

  async forget() {
    this.db?.close();
    await done(indexedDB.deleteDatabase(this.name));
    await this.open();
  }
}
