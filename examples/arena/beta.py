"""Beta: slow and thorough. Looks at every source twice before it believes it."""
import sys
import time

SOURCES = ["meetups", "universities", "companies", "libraries", "newsletters", "hackathons"]
TOPICS = ["agents", "evals", "robotics", "speech", "safety", "compilers"]
PLACES = ["Mission", "SoMa", "Presidio", "Berkeley", "Oakland", "Palo Alto"]


def collect(source: str, number: int) -> dict:
    time.sleep(0.4)  # a careful reader
    return {
        "day": f"2026-03-{number + 2:02d}",
        "title": f"{TOPICS[number].capitalize()} with the {source}",
        "place": PLACES[number],
        "link": f"https://events.example/{source}/{number}",
        "kind": "hackathon" if source == "hackathons" else "talk",
    }


def main() -> None:
    output = sys.argv[2]
    events = []
    for number, source in enumerate(SOURCES):
        print(f"[Beta] Reading {source} ({number + 1} of {len(SOURCES)})...")
        events.append(collect(source, number))
    print("[Beta] Checking for duplicates...")
    time.sleep(0.5)
    with open(output, "w", encoding="utf-8") as f:
        f.write("# AI Events in San Francisco\n\nThis week, by date:\n\n")
        for e in sorted(events, key=lambda e: e["day"]):
            f.write(f"- {e['day']}: **{e['title']}** in {e['place']} ({e['kind']}) {e['link']}\n")
    print(f"[Beta] Done, {len(events)} events")


if __name__ == "__main__":
    main()
