"""Cells in Redis or Valkey.

`store` is the store, `script.lua` what the server does in one step, `wire` how batches and cells travel, `server` which
server is spoken to and what its errors mean, `url` what a URL says, `checks` what the doctor asks.
"""

from cronce.stores.redis.store import TRAITS, RedisStore, init, open_store

__all__ = ["TRAITS", "RedisStore", "init", "open_store"]
