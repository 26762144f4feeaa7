"""Gamma: curated and reliable. A short list somebody has looked at, with everything a reader needs."""
import sys
import time

EVENTS = [
    ("2026-03-03", "Small models, big machines", "SoMa", "talk", "small-models"),
    ("2026-03-04", "Evals that hold up", "Mission", "workshop", "evals"),
    ("2026-03-05", "Night hackathon: tools for agents", "Presidio", "hackathon", "night-hack"),
    ("2026-03-06", "Robots that fold laundry", "Berkeley", "demo", "laundry"),
    ("2026-03-07", "Reading group: sandboxing", "Oakland", "talk", "sandboxing"),
    ("2026-03-08", "Sunday demos", "Palo Alto", "demo", "sunday-demos"),
]


def main() -> None:
    objective, output = sys.argv[1], sys.argv[2]
    print(f"[Gamma] {len(EVENTS)} curated events for: {objective}")
    with open(output, "w", encoding="utf-8") as f:
        f.write("# AI Events in San Francisco\n\n")
        for day, title, place, kind, slug in EVENTS:
            print(f"[Gamma] Checking the link of '{title}'")
            time.sleep(0.15)
            f.write(f"- {day}: **{title}** in {place} ({kind}) https://events.example/{slug}\n")
    print("[Gamma] Done!")


if __name__ == "__main__":
    main()
