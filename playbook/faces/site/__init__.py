"""The static site: page models drawn as HTML, with search, feeds and the engine's tables beside them."""
