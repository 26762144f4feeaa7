"""Delta: crashes. Divides by the number of events before it has any."""
import sys
import time


def main() -> None:
    print("[Delta] Ranking events...")
    time.sleep(0.3)
    events: list = []
    average = sum(len(e) for e in events) / len(events)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(f"average {average}\n")


if __name__ == "__main__":
    main()
