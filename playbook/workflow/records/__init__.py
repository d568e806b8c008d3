"""The incident record: from recording to replay, regression artifacts, exchange and post-mortem."""
