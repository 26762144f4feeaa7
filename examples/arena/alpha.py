"""Alpha: fast and shallow. Takes the first few events it knows and writes one line each."""
import sys

EVENTS = [
    ("2026-03-03", "Agents after dark"),
    ("2026-03-04", "Open model night"),
    ("2026-03-06", "Inference breakfast"),
]


def main() -> None:
    objective, output = sys.argv[1], sys.argv[2]
    print(f"[Alpha] Objective: {objective}")
    lines = ["# AI Events in San Francisco", ""]
    lines += [f"- {day}: {title}" for day, title in EVENTS]
    with open(output, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    print(f"[Alpha] Wrote {len(EVENTS)} events")


if __name__ == "__main__":
    main()
