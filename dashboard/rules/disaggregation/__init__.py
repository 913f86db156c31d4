"""Rules on prefill/decode disaggregation: PD."""
