"""Run as a program: forks a child for each line of standard input, which reads pages until it kills itself.

A line is JSON: {"directory", "number", "seed", "kill_at"}. The child is killed (SIGKILL) by itself when code of the
store or of the index is entered, or calls something, for the `kill_at`-th time, in whichever thread.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import fetchd.search.local
import fetchd.store
from fetchd.offered_pages import FetchedPage
from tests.fetchd.search.local.kit import START, open_index, read_text, search
from tests.fetchd.store.kit import Clock, keep, open_files
from tests.kit.crashing import run_orders

WORDS = ("alpha", "beta", "gamma", "delta", "東京", "déjà")


async def read_pages(directory: Path, number: int, dice: random.Random) -> None:
    clock = Clock(1 << 62)  # no hold outlasts it
    async with open_files(directory, clock=clock) as store, open_index(directory, serve=True) as index:
        for turn in range(number * 1_000, (number + 1) * 1_000):
            text = " ".join(dice.choices(WORDS, k=8)) + f" n{turn}"
            agent, place, now = dice.choice(["alice", "bob"]), dice.randrange(40), START + turn
            match dice.randrange(6):
                case 0:
                    blob = await keep(store, text.encode())
                    await index.texts.add(
                        [read_text(text, place, agent=agent, read_at=now, blob=blob.digest)]
                    )
                case 1:
                    await store.collect(0)
                case 2:
                    await search(index, dice.choice(WORDS), agent)
                case 3 if dice.random() < 0.1:
                    await index.texts.forget(agent, START)
                case 4:
                    await index.texts.add([read_text(text, n, read_at=now) for n in range(12)])
                case _:
                    url = f"https://b.example/{dice.randrange(40)}"
                    index.feeder.offer(FetchedPage(agent=agent, url=url, asked_at=START + 1, text=text))


def run_child(order: dict[str, Any]) -> None:
    asyncio.run(read_pages(Path(order["directory"]), order["number"], random.Random(order["seed"])))


if __name__ == "__main__":
    run_orders(run_child, fetchd.store, fetchd.search.local)
