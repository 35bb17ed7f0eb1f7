"""The demonstration of `make demo-kafka`: two topics, an ETL that joins them, and a topic with the result.

A real broker is started in a temporary directory, and stopped at the end. The data is that of a small restaurant:
orders and prices come as parts of transactions, which are complete only when the price is there.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Producer

from shoal.cli.main import main as shoal
from shoal.testing.kafka.broker import Broker, running_broker
from shoal.testing.kafka.clients import read_all

_COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
CONFIG = """\
kafka: {{bootstrap.servers: "{bootstrap}"}}
from-kafka:
  inputs:
    - {{topics: [order, menu], pool: raw}}
etl:
  input: raw
  output: staging
  transforms:
    - type: transaction
      id: value.txn
      done: or(value.done)
      out: sales
      zed: |
        const customerIDs = |{{"jane": 1, "bob": 2, "sarah": 3}}|
        const menuIDs = |{{"burrito": 100, "taco": 200, "chips": 300}}|
        yield {{
          customerID: customerIDs[records[0].value.row.customer],
          menuID: menuIDs[records[0].value.row.product],
          qty: records[0].value.row.qty,
          total: records[0].value.row.qty * records[1].value.row.price
        }}
to-kafka:
  outputs:
    - {{pool: staging, topics: [sales]}}
"""


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n\x1b[1m{text}\x1b[0m" if _COLOUR else f"\n== {text}", flush=True)


def run(command: str) -> None:
    """Print a command and run it; the demonstration ends if it fails."""
    print(f"$ shoal {command}", flush=True)
    status = shoal(shlex.split(command))
    sys.stdout.flush()
    if status:
        raise SystemExit(status)


def send(broker: Broker, topic: str, txn: int, done: bool, **row: object) -> None:
    """Send a record in a transaction of Kafka."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "demo", "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    value = json.dumps({"txn": txn, "done": done, "row": row})
    producer.produce(topic, value)
    producer.commit_transaction()
    print(f"  {topic}: {value}")


def sync(config: Path) -> None:
    """Bring what is there through all three jobs."""
    for job in ("sync from-kafka", "etl", "sync to-kafka"):
        run(f"{job} -config {config} -once -q")


def demonstrate(broker: Broker, folder: Path) -> None:
    """All steps."""
    os.environ["SHOAL_LAKE"] = str(folder / "lake")
    os.chdir(folder)
    config = folder / "restaurant.yaml"
    config.write_text(CONFIG.format(bootstrap=broker.bootstrap))
    for topic in ("order", "menu", "sales"):
        broker.create_topic(topic)
    say("A lake with a raw and a staging pool")
    run("init -q")
    run("create -q -orderby seqno raw")
    run("create -q -orderby seqno:desc staging")
    say("Jane's order is complete, Bob's is not")
    send(broker, "order", 10000, False, customer="jane", product="taco", qty=2)
    send(broker, "order", 10001, False, customer="bob", product="burrito", qty=1)
    send(broker, "menu", 10000, True, product="taco", price=1.99)
    sync(config.relative_to(folder))
    run('query -z "from staging | has(kafka.topic) | yield value"')
    run('query -z "from staging | is(<cursor>)"')
    say("The price of a burrito comes, and the broker is killed in between")
    send(broker, "menu", 10001, True, product="burrito", price=5.99)
    broker.kill()
    broker.restart()
    sync(config.relative_to(folder))
    sync(config.relative_to(folder))
    run('query -z "from staging | has(kafka.topic) | sort kafka.offset | yield value"')
    run('query -z "from staging | is(<cursor>) | max(seqno)"')
    say("The topic `sales`, as readers of what is committed see it: each sale once")
    for record in read_all(broker.bootstrap, "sales"):
        print(f"  {(record.value or b'').decode()}")
    run("sync status -config restaurant.yaml")


def main() -> None:
    """Run the demonstration in a temporary directory."""
    began = time.monotonic()
    home = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="shoal-demo-") as name:
        folder = Path(name)
        say("A broker of Kafka")
        with running_broker(folder / "kafka") as broker:
            print(f"  at {broker.bootstrap}")
            try:
                demonstrate(broker, folder)
            finally:
                os.chdir(home)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
