"""The judge: rates a post from 0 to 100. Runs in a sandbox of its own; all it gets is the artifact."""
import json
import re
import sys

ITEM = re.compile(r"^- (\d{4}-\d{2}-\d{2}): (.+)$", re.M)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8", errors="replace") as f:
        text = f.read(1 << 20)
    items = ITEM.findall(text)
    n = len(items)
    share = lambda pattern: sum(bool(re.search(pattern, body)) for _, body in items) / n if n else 0
    parts = {
        "items": min(n, 6) / 6 * 30,
        "places": share(r" in [A-Z]") * 20,
        "links": share(r"https://\S+$") * 20,
        "kinds": share(r"\((talk|workshop|demo|hackathon)\)") * 10,
        "in_order": 10 if [d for d, _ in items] == sorted(d for d, _ in items) and n else 0,
        "hackathon": 10 if "hackathon" in text.lower() else 0,
    }
    print(json.dumps({"quality": round(sum(parts.values()), 1), "details": {"count": n, "points": parts}}))


if __name__ == "__main__":
    main()
