// What the last row sees of the slide that is shown, with all its steps there, in CSS pixels of a slide of 1280 × 720:
// the smallest letters of its text and of its figures, how much of its height is left over, and what is wrong with it.
// Small by right are indices, exponents and what stands above or below a sign in a formula; and the slide's number.
() => {
  const slide = Reveal.getCurrentSlide(), scale = Reveal.getScale();
  const frame = document.querySelector(".slides").getBoundingClientRect();
  const room = slide.querySelector(".room"), space = room.getBoundingClientRect();
  const troubles = [];
  const small = (part) => part.closest(".msupsub, .op-limits") || (part.closest(".mtight") && !part.closest(".munder, .mover"));
  const hidden = (part) => part.closest("aside, .katex-mathml, .anchor-link");

  // every piece of text and every figure: [box, element, words]
  function pieces() {
    const found = [...slide.querySelectorAll("img")].map((img) => [img.getBoundingClientRect(), img, img.alt.slice(0, 40)]);
    const walker = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      if (!node.data.trim() || hidden(node.parentElement)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects()) if (box.width) found.push([box, node.parentElement, node.data.trim().slice(0, 40)]);
    }
    return found;
  }

  function outside() {
    const found = [];
    for (const [box, part, words] of pieces()) {
      const within = room.contains(part) ? space : frame;
      const over = Math.max(box.bottom - within.bottom, box.right - within.right, within.left - box.left, within.top - box.top) / scale;
      if (over > 5) found.push( // the box of a line is a little higher than its letters
        `${words} sticks out by ${Math.round(over)}`,
      );
    }
    return found;
  }

  // letters, cut off or on top of each other, of an SVG whose letters are outlines: matplotlib scales them from 100 units
  function figure(img) {
    if (!img.src.startsWith("data:image/svg+xml;base64,")) {
      troubles.push("a figure of pixels: its letters cannot be measured");
      return [];
    }
    const box = img.getBoundingClientRect(), holder = document.createElement("div");
    holder.style.cssText = `position: fixed; left: 0; top: 0; width: ${box.width}px; height: ${box.height}px`;
    holder.innerHTML = new TextDecoder().decode(Uint8Array.from(atob(img.src.split(",")[1]), (c) => c.charCodeAt(0))).replace(/^[^]*?(?=<svg)/, "");
    document.body.append(holder);
    const svg = holder.firstElementChild;
    svg.setAttribute("width", box.width);
    svg.setAttribute("height", box.height);
    const unit = box.width / svg.viewBox.baseVal.width;
    const texts = [];
    for (const group of svg.querySelectorAll("g[id^='text_']")) {
      const at = group.getBoundingClientRect();
      const sizes = [...group.children].map((g) => /scale\(([\d.]+)/.exec(g.getAttribute("transform") ?? "")?.[1] * 100 * unit);
      const words = [...group.childNodes].find((node) => node.nodeType === Node.COMMENT_NODE)?.data.trim() ?? "";
      if (at.width) texts.push([at, Math.min(...sizes.filter((size) => size > 0)) / scale, words]);
    }
    if (!texts.length && /letters|text/.test(svg.innerHTML)) troubles.push("a figure whose letters were not found");
    texts.forEach(([a, , words], i) => {
      if (a.left < -1 || a.top < -1 || a.right > box.width + 1 || a.bottom > box.height + 1) troubles.push(`${words} is cut off`);
      for (const [b, , others] of texts.slice(i + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left), down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 1 && down > 1) troubles.push(`${words} stands on ${others}`);
      }
    });
    holder.remove();
    return texts.map(([, size, words]) => [size, words]);
  }

  const least = (sizes) => sizes.reduce((a, b) => (b[0] < a[0] ? b : a), [Infinity, ""]);
  const texts = pieces().filter(([, part]) => part.tagName !== "IMG" && !small(part));
  const images = [...slide.querySelectorAll("img")];
  troubles.push(...outside());
  const bottoms = pieces().map(([box]) => box.bottom), tops = pieces().filter(([, part]) => room.contains(part)).map(([box]) => box.top);
  const result = {
    text: least(texts.map(([, part, words]) => [parseFloat(getComputedStyle(part).fontSize), words])),
    label: least(images.flatMap(figure)),
    body: parseFloat(room.style.fontSize),
    left: (space.height - (Math.max(...bottoms) - Math.min(...tops))) / space.height,
    figures: images.length,
  };
  const size = parseFloat(room.style.fontSize);
  if (!images.length && size + 2 <= MOST) {
    room.style.fontSize = `${size + 2}px`;
    if (!outside().length) troubles.push(`type of ${size} px, and larger type would fit`);
    room.style.fontSize = `${size}px`;
  }
  return { ...result, troubles };
}
