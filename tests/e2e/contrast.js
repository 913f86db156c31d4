// Lists the visible texts of a page that stand out too little from what is behind them (WCAG 2.2, 1.4.3).
() => {
  const LARGE = 24, LARGE_BOLD = 18.66, BOLD = 700; // pixels, and the weight from which 14 points are large
  const SILENT = ["STYLE", "SCRIPT", "NOSCRIPT", "TEMPLATE", "TITLE", "DESC"];
  const UNTYPED = ["checkbox", "radio", "file", "hidden"];
  const found = [];

  // red, green, blue from 0 to 255, and alpha
  function read(text) {
    const numbers = text.match(/[\d.]+(?:e-?\d+)?/g)?.map(Number);
    if (!numbers || numbers.length < 3) return null;
    const [red, green, blue, alpha = 1] = numbers;
    return text.startsWith("color(srgb") ? [red * 255, green * 255, blue * 255, alpha] : [red, green, blue, alpha];
  }
  const above = (node) => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
  const over = (one, other) => [0, 1, 2].map((i) => one[i] * one[3] + other[i] * (1 - one[3]));
  const light = (colour) => {
    const [red, green, blue] = colour.map((each) => each / 255).map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };

  function isSeen(element) {
    const box = element.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1 || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
    for (let node = element; node; node = above(node)) if (getComputedStyle(node).clipPath === "inset(50%)") return false;
    return true;
  }

  // In a drawing it is the last rectangle below the middle of a text.
  function drawnBehind(element) {
    if (!(element instanceof SVGElement)) return [];
    const box = element.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const holds = ({ left, right, top, bottom }) => left <= x && x <= right && top <= y && y <= bottom;
    const isSolid = (rect) => Number(getComputedStyle(rect).fillOpacity) === 1 && Number(getComputedStyle(rect).opacity) === 1;
    const rects = [...element.ownerSVGElement.querySelectorAll("rect")];
    const below = rects.filter((rect) => holds(rect.getBoundingClientRect()) && isSolid(rect));
    const colour = below.length && read(getComputedStyle(below.at(-1)).fill);
    return colour ? [colour] : [];
  }

  function check(element, text, style) {
    const layers = drawnBehind(element);
    let opacity = 1;
    for (let node = element; node; node = above(node)) {
      const own = getComputedStyle(node);
      opacity *= Number(own.opacity);
      const ground = read(own.backgroundColor);
      if (ground?.[3] > 0) layers.push(ground);
      if (ground?.[3] === 1) break;
    }
    const behind = layers.reverse().reduce((ground, each) => over(each, ground), [255, 255, 255]);
    const paint = element instanceof SVGElement ? style.fill : style.color;
    const [red, green, blue, alpha] = read(paint);
    const [more, less] = [light(over([red, green, blue, alpha * opacity], behind)), light(behind)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const least = size >= LARGE || (size >= LARGE_BOLD && Number(style.fontWeight) >= BOLD) ? 3 : 4.5;
    const ratio = (more + 0.05) / (less + 0.05);
    if (ratio < least) found.push(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute("class") ?? ""}: ${text.slice(0, 60)}`);
  }

  function walk(root) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.shadowRoot) walk(node.shadowRoot);
      if (node.matches?.("input, textarea") && !UNTYPED.includes(node.type) && isSeen(node)) {
        if (node.value || node.placeholder) check(node, node.value || node.placeholder, getComputedStyle(node, node.value ? null : "::placeholder"));
      }
      const parent = node.parentElement;
      if (node.nodeType !== Node.TEXT_NODE || !node.data.trim() || !parent || SILENT.includes(parent.tagName) || !isSeen(parent)) continue;
      check(parent, node.data.trim(), getComputedStyle(parent));
    }
  }

  walk(document.body);
  return { found: [...new Set(found)], read: document.body.innerText.length };
}
