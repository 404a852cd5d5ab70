"""Many machines: who has joined, what each of them has, and how they know each other. Shared in Postgres."""
