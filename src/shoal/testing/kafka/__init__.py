"""Real parts around Kafka for tests, in processes of their own: broker, schema registry, PostgreSQL and Debezium."""
