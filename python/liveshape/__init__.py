"""Liveshape: one torch.export artifact, exact results at every live shape below its bound."""

from liveshape.save import save

__all__ = ["save"]
