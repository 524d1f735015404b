// What is looked at lives in the address, so that it can be sent to somebody and the back button works.

export const RANGES = { "5m": "5 min", "15m": "15 min", "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d" };
const KEYS = ["range", "monitor", "evaluator", "outcome", "q", "order", "evaluation"];
const DEFAULTS = { range: "1h", order: "worst" };

/** What the address says, with every key. */
export function read() {
  const query = new URLSearchParams(location.search);
  const wanted = Object.fromEntries(KEYS.map((key) => [key, query.get(key) ?? DEFAULTS[key] ?? ""]));
  if (!(wanted.range in RANGES)) wanted.range = DEFAULTS.range;
  wanted.ranged = query.has("range"); // nobody chose a range: it is that of the data's age
  if (wanted.order !== "newest") wanted.order = "worst";
  return wanted;
}

/** The address of a state: what is usual is left out. */
export function href(state) {
  const query = new URLSearchParams();
  for (const key of KEYS) if (state[key] && state[key] !== DEFAULTS[key] && (key !== "range" || state.ranged)) query.set(key, state[key]);
  const text = query.toString();
  return text ? `?${text}` : location.pathname;
}

/** Go to a state: a step for the back button where something is opened, none where a filter changes. */
export function go(state, { step = false } = {}) {
  history[step ? "pushState" : "replaceState"](null, "", href(state));
}

/** The query of the list. */
export function listQuery(state, limit) {
  const query = new URLSearchParams({ range: state.range, order: state.order, limit: String(limit) });
  for (const key of ["monitor", "evaluator", "outcome", "q"]) if (state[key]) query.set(key, state[key]);
  return query;
}
