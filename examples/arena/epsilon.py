"""Epsilon: runs fine and writes the wrong thing. Nothing crashes; only the checks can tell."""
import sys
import time


def main() -> None:
    print("[Epsilon] Found 12 great deals!")
    time.sleep(0.6)
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write("# Pizza specials in Chicago\n\n")
        for number in range(12):
            f.write(f"* deep dish number {number}, today only\n")
    print("[Epsilon] Done!")


if __name__ == "__main__":
    main()
