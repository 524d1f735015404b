// Figures and times as people read them.

/** A number without the sign of what rounds to 0. */
export const fixed = (value, digits) => (+value.toFixed(digits) + 0).toFixed(digits);

export const score = (value) => (value === null || value === undefined ? "–" : fixed(value, 2));

/** The interval beside a mean: ± where it is symmetric, else its ends; of equal scores at an end of the scale, one. */
export function margin({ mean, interval, scores }) {
  if (!interval) return "";
  const [low, high] = interval;
  const all = scores ? ` (${plural(scores, "score")}, all ${mean})` : "";
  if (high === 1 && mean >= 1) return `true mean at least ${(Math.floor(low * 100 + 1e-7) / 100).toFixed(2)}${all}`;
  if (low === 0 && mean <= 0) return `true mean at most ${(Math.ceil(high * 100 - 1e-7) / 100).toFixed(2)}${all}`;
  const isSymmetric = Math.abs(high + low - 2 * mean) < 0.2 * (high - low);
  return isSymmetric ? `(95 %: ± ${Math.max(high - mean, mean - low).toFixed(2)})` : `(95 %: ${score(low)} to ${score(high)})`;
}

/** A share, with up to two digits where 0 % or 100 % would say that it is nothing or all. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const digits = [0, 1, 2].find((each) => +(share * 100).toFixed(each) % 100) ?? 0;
  return `${(share * 100).toFixed(digits)} %`;
}

export const count = (number) => number.toLocaleString("en");

export function compact(number) {
  return Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(number);
}

export function money(usd) {
  if (usd === null || usd === undefined) return "–";
  if (usd === 0) return "$0";
  if (usd < 0.01) return `$${usd.toPrecision(2)}`;
  return `$${usd.toFixed(2)}`;
}

export function span(seconds) {
  if (seconds >= 86400) return `${Math.round(seconds / 86400)} d`;
  if (seconds >= 7200) return `${Math.round(seconds / 3600)} h`;
  if (seconds >= 120) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds)} s`;
}

export function clock(seconds, precise = true) {
  const options = precise
    ? { hour: "2-digit", minute: "2-digit", second: "2-digit" }
    : { hour: "2-digit", minute: "2-digit" };
  return new Date(seconds * 1000).toLocaleTimeString([], { ...options, hour12: false });
}

export function day(seconds) {
  return new Date(seconds * 1000).toLocaleDateString([], { day: "numeric", month: "short" });
}

export function moment(seconds, now, precise = true) {
  return now - seconds > 72000 ? `${day(seconds)} ${clock(seconds, false)}` : clock(seconds, precise);
}

export const listed = (names) => new Intl.ListFormat("en-GB").format(names);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
