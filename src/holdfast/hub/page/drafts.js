// What a person has typed and not sent: kept in this browser until it is sent or cleared.

const PREFIX = "holdfast-draft:";

/** The draft of that name, or an empty text. */
export const draft = (name) => localStorage.getItem(PREFIX + name) ?? "";

/** Keep a draft; an empty one is forgotten. */
export function keepDraft(name, text) {
  if (text.trim()) localStorage.setItem(PREFIX + name, text);
  else localStorage.removeItem(PREFIX + name);
}

/** Fill a field from its draft, and keep what is typed in it from then on. */
export function keepsDraft(field, name) {
  if (!field.value) field.value = draft(name);
  field.addEventListener("input", () => keepDraft(name, field.value));
  return field;
}
