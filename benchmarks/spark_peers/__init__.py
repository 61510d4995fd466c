"""The ways in which one Spark session can join, each under the clock, by name.

A peer is a function of a `Stage` that returns what it measured. Rows go to Spark's noop sink, which
takes every row and keeps none. What is checked is looked at after the clock has stopped.
"""

from __future__ import annotations

from benchmarks.spark_peers import aggregates, many, promised, streams, tables
from benchmarks.spark_peers.stage import Peer

PEERS: dict[str, Peer] = {
    peer.__name__: peer
    for peer in (
        tables.written_by_spark,
        tables.spark_table,
        tables.spark_plan,
        tables.spark_first,
        tables.spark_count,
        tables.waves,
        tables.waves_of_plan,
        tables.waves_of_rows,
        tables.waves_computed,
        tables.first_wave,
        tables.whole,
        tables.whole_of_plan,
        many.cascade,
        many.many_waves,
        many.many_waves_of_rows,
        many.many_whole,
        streams.our_streams,
        streams.our_streams_by_rows,
        streams.spark_streams,
        streams.our_enrich,
        streams.spark_static,
        streams.spark_broadcast,
        promised.spark_watermarks,
        promised.our_watermarks,
        promised.spark_resumed,
        promised.our_resumed,
        aggregates.spark_aggregate,
        aggregates.our_aggregate,
        aggregates.our_percent,
        aggregates.our_exact,
    )
}
