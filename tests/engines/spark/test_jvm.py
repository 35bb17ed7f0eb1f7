"""The JVM gets what Spark's own launcher would give it."""

from __future__ import annotations

import subprocess

from shoal.engines.spark.installation import find_java, spark_jars
from shoal.engines.spark.jvm import OPTIONS

LEFT_OUT = {"--add-modules=jdk.incubator.vector", "-Dderby.connection.requireAuthentication=false", "-Xmx1g"}


def test_options_are_those_of_the_launcher() -> None:
    jars = spark_jars()[0].parent
    launcher = [str(find_java()), "-cp", f"{jars}/*", "org.apache.spark.launcher.Main"]
    command = [*launcher, "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    variables = {"SPARK_HOME": str(jars.parent), "SPARK_SCALA_VERSION": "2.13"}
    told = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    words = told.stdout.split("\0")
    options = words[words.index("-cp") + 2 : words.index("org.apache.spark.deploy.SparkSubmit")]
    assert set(options) - LEFT_OUT == set(OPTIONS)
