"""What cars share: their inputs, the engine, tyres."""
