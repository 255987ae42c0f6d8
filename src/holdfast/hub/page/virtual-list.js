// A long list of which only what is near the eye is in the document; heights may be any and may change.

const NEAR = 700; // pixels kept ready above and below
const END = 48; // this near to the end counts as being there

/** Shows items {key, rev}; `draw(item)` makes an element, `guess(item)` its height before it is measured. */
export class Window extends EventTarget {
  #items = [];
  #tops = new Float64Array(1);
  #heights = new Map();
  #shown = new Map(); // key -> {element, item, index}
  #index = new Map(); // key -> index
  #sizes;
  #frame = 0;
  #following = true;
  #width = 0;

  constructor(scroller, { draw, guess }) {
    super();
    this.scroller = scroller;
    this.draw = draw;
    this.guess = guess;
    this.sheet = scroller.querySelector(".sheet");
    this.#sizes = new ResizeObserver((entries) => this.#measured(entries));
    this.#sizes.observe(scroller);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
  }

  get following() {
    return this.#following;
  }

  get items() {
    return this.#items;
  }

  /** The first and last item that can be seen. */
  get view() {
    if (!this.#items.length) return null;
    const top = this.scroller.scrollTop;
    const last = this.#at(top + this.scroller.clientHeight - 1);
    return [this.#items[this.#at(top)], this.#items[last]];
  }

  /** Show these from now on; what is looked at stays where it is, or the end if that was in view. */
  set(items) {
    const anchor = this.#anchor();
    this.#items = items;
    this.#index = new Map(items.map((item, index) => [item.key, index]));
    this.#measure();
    for (const [key, shown] of this.#shown) {
      const index = this.#index.get(key);
      if (index === undefined || items[index].rev !== shown.item.rev) this.#drop(key);
    }
    this.#settle(anchor);
  }

  /** Redraw one item: what is open in it has changed. */
  redraw(key) {
    const anchor = this.#anchor();
    this.#drop(key);
    this.#settle(anchor);
  }

  /** Bring an item to the top of what is seen, and the keyboard to it. */
  show(index, focus = false) {
    if (!this.#items.length) return;
    const at = Math.max(0, Math.min(index, this.#items.length - 1));
    const key = this.#items[at].key;
    this.#following = false;
    // Heights above are guesses until drawn: go there, measure, and go there again.
    for (let round = 0; round < 4; round += 1) {
      this.scroller.scrollTop = Math.max(0, this.#tops[this.#index.get(key)] - 12);
      this.#render();
      this.#readHeights();
    }
    const element = this.#shown.get(key)?.element;
    if (element && focus) {
      element.focus({ preventScroll: true });
      element.classList.remove("flash");
      void element.offsetWidth;
      element.classList.add("flash");
    }
    this.#told();
  }

  /** Go to the end and stay there as it grows. */
  end() {
    this.#following = true;
    this.#toEnd();
    this.#told();
  }

  element(key) {
    return this.#shown.get(key)?.element ?? null;
  }

  close() {
    this.#sizes.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  #height(item) {
    return this.#heights.get(item.key) ?? this.guess(item);
  }

  #measure() {
    const tops = new Float64Array(this.#items.length + 1);
    for (let i = 0; i < this.#items.length; i += 1) tops[i + 1] = tops[i] + this.#height(this.#items[i]);
    this.#tops = tops;
    this.sheet.style.height = `${tops[this.#items.length]}px`;
  }

  #at(y) {
    let low = 0;
    let high = this.#items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  #anchor() {
    if (!this.#items.length) return null;
    const top = this.scroller.scrollTop;
    const index = this.#at(top);
    return { key: this.#items[index].key, below: top - this.#tops[index], index };
  }

  #settle(anchor) {
    if (this.#following) {
      this.#toEnd();
      return;
    }
    const index = anchor ? (this.#index.get(anchor.key) ?? Math.min(anchor.index, this.#items.length - 1)) : -1;
    if (index >= 0) this.scroller.scrollTop = this.#tops[index] + anchor.below;
    this.#render();
  }

  #toEnd() {
    for (let round = 0; round < 3; round += 1) {
      this.scroller.scrollTop = this.sheet.offsetHeight;
      this.#render();
      if (!this.#readHeights()) break;
    }
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  #render() {
    const top = this.scroller.scrollTop;
    const from = this.#at(top - NEAR);
    const to = this.#items.length ? this.#at(top + this.scroller.clientHeight + NEAR) : -1;
    for (const [key, shown] of this.#shown) {
      const index = this.#index.get(key);
      const kept = shown.element.contains(document.activeElement); // the keyboard is there
      if ((index < from || index > to) && !kept) this.#drop(key);
    }
    for (let index = from; index <= to; index += 1) {
      const item = this.#items[index];
      if (!this.#shown.has(item.key)) this.#show(item, index, to);
    }
    for (const [key, shown] of this.#shown) {
      const index = this.#index.get(key);
      shown.element.style.transform = `translateY(${this.#tops[index]}px)`;
      shown.element.setAttribute("aria-posinset", index + 1);
      shown.element.setAttribute("aria-setsize", this.#items.length);
    }
  }

  #show(item, index, to) {
    const element = this.draw(item);
    element.classList.add("row");
    // In the order of the list, so that reading and tabbing go down the page.
    let before = null;
    for (let next = index + 1; next <= to && !before; next += 1) before = this.#shown.get(this.#items[next].key)?.element ?? null;
    this.sheet.insertBefore(element, before);
    this.#shown.set(item.key, { element, item });
    this.#sizes.observe(element);
  }

  #drop(key) {
    const shown = this.#shown.get(key);
    if (!shown) return;
    this.#sizes.unobserve(shown.element);
    shown.element.remove();
    this.#shown.delete(key);
  }

  #readHeights() {
    let changed = false;
    for (const [key, shown] of this.#shown) {
      const height = shown.element.offsetHeight;
      if (height && this.#heights.get(key) !== height) {
        this.#heights.set(key, height);
        changed = true;
      }
    }
    if (changed) this.#measure();
    return changed;
  }

  #measured() {
    if (this.scroller.clientWidth !== this.#width) {
      if (this.#width) this.#heights.clear(); // another width: all that was measured is stale
      this.#width = this.scroller.clientWidth;
    }
    const anchor = this.#anchor();
    if (this.#readHeights() || this.#following) this.#settle(anchor);
    else this.#render();
    this.#told();
  }

  #scrolled() {
    const left = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight;
    this.#following = left < END;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      this.#render();
      this.#told();
    });
  }

  #told() {
    this.dispatchEvent(new CustomEvent("view"));
  }
}
