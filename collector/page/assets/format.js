// Figures and times as people read them.

export const score = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));

export const margin = (error) => (error === null || error === undefined ? "" : `±${(2 * error).toFixed(2)}`);

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`);

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

export function moment(seconds, now) {
  return now - seconds > 72000 ? `${day(seconds)} ${clock(seconds, false)}` : clock(seconds);
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
