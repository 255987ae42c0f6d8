// Marks what was found, in the text that is drawn: by the browser's own highlights, so no element changes.

const NAME = "found";

/** Mark every occurrence of `words` (lower case) under an element; an empty text marks nothing. */
export function highlight(root, words) {
  if (!globalThis.CSS?.highlights) return; // an older browser: the item itself still flashes
  if (!words) {
    CSS.highlights.delete(NAME);
    return;
  }
  const ranges = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set(NAME, new Highlight(...ranges));
}
