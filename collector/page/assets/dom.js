// Builds elements. Data only ever becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("p", {class: "x", onclick}, "text", child)`. Null and false children are left out. */
export function h(tag, properties = {}, ...children) {
  return furnish(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function s(tag, properties = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), properties, children);
}

function furnish(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...there(children));
  return element;
}

function there(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false);
}

/** Put children in place of what is there; null and false are left out, of which the browser would make words. */
export function put(parent, ...children) {
  parent.replaceChildren(...there(children));
}

export const byId = (id) => document.getElementById(id);

/** Put children in place of what is there, unless they would look the same: no flicker, no lost selection. */
export function fill(parent, ...children) {
  const fresh = children.flat().filter(Boolean);
  const old = [...parent.childNodes];
  if (old.length === fresh.length && old.every((node, index) => node.isEqualNode(fresh[index]))) return false;
  parent.replaceChildren(...fresh);
  return true;
}

/** Text of any origin: on its own as to direction, and folded when it is long. */
export function prose(text, limit = 3000) {
  const shown = h("div", { class: "prose", dir: "auto" }, text.length > limit ? `${text.slice(0, limit)}…` : text);
  if (text.length <= limit) return shown;
  const more = h("button", {
    type: "button", class: "quiet",
    onclick: () => { shown.textContent = text; more.remove(); },
  }, `Show all ${text.length.toLocaleString("en")} characters`);
  return h("div", {}, shown, more);
}
