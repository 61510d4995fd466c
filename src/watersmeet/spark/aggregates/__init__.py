"""Online aggregation on Spark: tasks read blocks, and only their totals travel to the driver."""
