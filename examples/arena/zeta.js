// Zeta: the same task in JavaScript. The suffix picks the interpreter.
const fs = require("fs");

const [objective, output] = process.argv.slice(2);
const events = [
  ["2026-03-03", "Compilers for matrices", "SoMa", "talk"],
  ["2026-03-05", "Prompt injection clinic", "Mission", "workshop"],
  ["2026-03-07", "Weekend hackathon", "Oakland", "hackathon"],
];

console.log(`[Zeta] ${events.length} events for: ${objective}`);
const lines = events.map(
  ([day, title, place, kind]) =>
    `- ${day}: **${title}** in ${place} (${kind}) https://events.example/${title.toLowerCase().replace(/ /g, "-")}`,
);
fs.writeFileSync(output, ["# AI Events in San Francisco", "", ...lines, ""].join("\n"));
