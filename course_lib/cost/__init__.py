"""What a model costs: multiply-accumulates (``macs``), bits (``encodings``) and seconds (``latency``)."""
