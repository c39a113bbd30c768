// Numbers in words, as the text report has them.
"use strict";

culprit.threeDigits = (value) => value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2);

// "1.25 GiB"
culprit.bytes = function (bytes) {
  if (bytes < 1024) return bytes + " B";
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let value = bytes / 1024, unit = 0;
  while (value >= 1023.5 && unit + 1 < units.length) {
    value /= 1024;
    unit += 1;
  }
  return culprit.threeDigits(value) + " " + units[unit];
};

// "12.4 s", "830 ms", "3 min 20 s"
culprit.time = function (ns) {
  const seconds = ns * 1e-9;
  if (seconds < 1) return culprit.threeDigits(seconds * 1e3) + " ms";
  if (seconds < 120) return culprit.threeDigits(seconds) + " s";
  const whole = Math.round(seconds);
  if (whole < 7200) return Math.floor(whole / 60) + " min " + (whole % 60) + " s";
  return Math.floor(whole / 3600) + " h " + Math.floor((whole % 3600) / 60) + " min";
};

culprit.number = (value) => value.toLocaleString("en-US");

// "1 call", "3 calls"
culprit.plural = (count, one, many) => culprit.number(count) + " " + (count === 1 ? one : many);

culprit.percent = function (part, whole) {
  if (!whole) return "";
  const percent = (100 * part) / whole;
  return (percent >= 9.95 || percent === 0 ? percent.toFixed(0) : percent >= 0.1 ? percent.toFixed(1) : "<0.1") + " %";
};

culprit.baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

culprit.hex = (value) => "0x" + value.toString(16);
