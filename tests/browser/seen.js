// What a page of the web site holds, and what is wrong with it at the width that it has.
() => {
  const article = document.querySelector("article.bd-article") ?? document.querySelector("main") ?? document.body;
  const troubles = [];
  const said = (part) => (part.alt || part.innerText || part.outerHTML).trim().slice(0, 60);
  for (const picture of document.images) {
    if (!(picture.alt ?? "").trim()) troubles.push(`a picture without a text: ${picture.src.slice(0, 60)}`);
    if (!picture.complete || !picture.naturalWidth) troubles.push(`a picture that is not there: ${picture.src.slice(0, 60)}`);
  }
  let rank = 1;
  for (const heading of article.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const now = Number(heading.tagName[1]);
    if (now > rank + 1) troubles.push(`after a heading of rank ${rank} one of ${now}: ${said(heading)}`);
    rank = now;
  }
  for (const formula of article.querySelectorAll(".math")) {
    if (!formula.querySelector("math")) troubles.push(`a formula that is not set: ${said(formula)}`);
  }
  for (const text of article.querySelectorAll("p, li, td")) {
    if (text.closest("pre, code")) continue;
    if (/\|\s*[-–—:]{2,}/.test(text.innerText)) troubles.push(`a table that is not set: ${said(text)}`);
    if (/\$\\?[A-Za-z][^$]*\$/.test(text.innerText)) troubles.push(`a formula that is not set: ${said(text)}`);
  }
  for (const signature of article.querySelectorAll("dt.sig")) {
    if (/~\w|<\w/.test(signature.innerText)) troubles.push(`a signature that is not read: ${said(signature)}`);
  }
  for (const error of document.querySelectorAll(".katex-error")) troubles.push(`${error.title}: ${said(error)}`);
  const scrolls = (part) => ["auto", "scroll"].includes(getComputedStyle(part).overflowX);
  for (const part of article.querySelectorAll("*")) {
    const box = part.getBoundingClientRect();
    if (box.width < 2 || box.right <= innerWidth + 1) continue;
    if (part.closest(".katex-mathml, .visually-hidden, .sr-only, svg")) continue;
    let round = part;
    while (round && round !== article && !scrolls(round)) round = round.parentElement;
    if (round === article || !round) troubles.push(`wider than the page: ${part.tagName} ${said(part)}`);
  }
  return {
    troubles: [...new Set(troubles)].slice(0, 5),
    h1: document.querySelectorAll("h1").length,
    ids: [...document.querySelectorAll("[id], a[name]")].map((part) => part.id || part.name),
    links: [...document.querySelectorAll("a[href], link[rel=stylesheet], script[src]")]
      .map((part) => part.getAttribute("href") ?? part.getAttribute("src")),
  };
}
