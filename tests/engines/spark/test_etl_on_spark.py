"""A round of an ETL on Spark gives what rounds of the interpreter give."""

from __future__ import annotations

import random
from pathlib import Path

from tests.engines.spark.conftest import SharedSession

import shoal
from shoal.connect.etl import Etl
from shoal.testing.etl_model import TRANSFORMS, Raw
from shoal.testing.etl_scenes import Scene, finish

RECORDS = 400


def test_an_etl_on_spark(shared_session: SharedSession, tmp_path: Path) -> None:
    assert shared_session.run(given_by, tmp_path, "spark", 250) == shared_session.run(given_by, tmp_path, "interp", 40)


def given_by(folder: Path, engine: str, batch: int) -> list[str]:
    """What a job gives that an engine runs."""
    dice, scene = random.Random(5), Scene(shoal.create(folder / engine))
    records = [Raw(dice.choice("TTUUABX"), dice.randrange(9), dice.randrange(6), 10 + n // 4) for n in range(RECORDS)]
    for at in range(0, RECORDS, 100):
        scene.raw.load([each.fields(at + n) for n, each in enumerate(records[at : at + 100], 1)])
    expire = {"after": "20s", "records": 90, "pool": "expired"}
    config = scene.config(*TRANSFORMS, batch={"records": batch}, expire=expire)
    assert finish(Etl(scene.lake, config, engine=engine)) is not None
    program = "has(kafka.offset) | sort kafka.topic,kafka.offset,seqno"
    return [line for name in ("staging", "other", "expired") for line in scene.rows(program, name)]
