// Text as it is: characters that would reorder, hide or color other text are shown instead of obeyed.

const ESCAPES = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g; // colors, titles, links
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u202a-\u202e\u2060-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function shown(character) {
  return `⟨U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

/** The same text with nothing in it that acts. */
export function plain(text) {
  UNSEEN.lastIndex = 0;
  if (!UNSEEN.test(text)) return text;
  return text.replace(ESCAPES, "").replace(UNSEEN, shown);
}
