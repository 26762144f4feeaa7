"""Counts primes the slow way, and says where it is."""
import os
import platform


def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


print("primes below 50,000:", sum(map(is_prime, range(50_000))))
print(f"I am uid {os.getuid()} on host {platform.node()!r}, process {os.getpid()}, in {os.getcwd()}")
