"""A tiny language model and its data: small enough to train in seconds, real enough to fail like a large one.

The data are a second-order Markov chain over `VOCAB` tokens: it can be learned (entropy about 1.9 nats against
ln 64 = 4.16 for a guess), has rare tokens, and every sample has a number, so that order and repetition can be played
with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, SEQUENCE, WIDTH, HEADS, LAYERS = 64, 24, 32, 2, 2
FP16_MAX = 65504.0


class Chain:
    """Samples by number: sample i is always the same sequence. `hard` makes the tail of the numbers nearly random."""

    def __init__(self, seed: int, size: int = 4096, hard_from: int | None = None) -> None:
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(VOCAB, VOCAB, generator=generator) * 2.2
        table = torch.softmax(logits, -1)
        tokens = torch.empty(size, SEQUENCE + 1, dtype=torch.long)
        tokens[:, 0] = torch.randint(VOCAB, (size,), generator=generator)
        for k in range(SEQUENCE):
            tokens[:, k + 1] = torch.multinomial(table[tokens[:, k]], 1, generator=generator)[:, 0]
        if hard_from is not None:
            shape = (size - hard_from, SEQUENCE + 1)
            tokens[hard_from:] = torch.randint(VOCAB, shape, generator=generator)
        self.tokens, self.size = tokens, size

    def batch(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        chosen = self.tokens[numbers % self.size]
        return chosen[:, :-1], chosen[:, 1:].clone()


@dataclass(frozen=True)
class Shape:
    """What may be wrong with a model from the start."""

    init: float = 0.08
    leak: bool = False  # no causal mask: the label is in sight
    norm_eps: float = 1e-5
    half: str = ""  # "" | fp16 | bf16: activations are rounded to it
    dropout: float = 0.0
    attention_scale: float = 1 / math.sqrt(WIDTH // HEADS)


class Model(nn.Module):
    """Two pre-norm transformer blocks, tied to nothing, with a linear head."""

    def __init__(self, shape: Shape, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.place = nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, eps=max(shape.norm_eps, 1e-12))
        self.head = nn.Linear(WIDTH, VOCAB)
        self.logits = 0.0  # mean norm of the output logits of the last forward pass
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=shape.init)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = rounded(block(x), self.shape.half)
        logits: Tensor = self.head(self.norm(x))
        self.logits = float(logits.detach().norm(dim=-1).mean())
        return logits

    def extremes(self) -> dict[str, float]:
        """Largest absolute activations of the last forward pass, by layer, and the largest attention logit."""
        found = {}
        for i, block in enumerate(self.blocks):
            found |= {f"activation_max/layers.{i}.{part}": size for part, size in block.seen.items()}
        logits = [found.pop(name) for name in list(found) if name.endswith(".logits")]
        return {**found, "attention_logit_max": max(logits)}


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.one, self.two = (nn.LayerNorm(WIDTH, eps=max(shape.norm_eps, 1e-12)) for _ in range(2))
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.seen: dict[str, float] = {}

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.mix(self.one(x)).chunk(3, -1))
        logits = rounded(q @ k.transpose(-1, -2) * self.shape.attention_scale, self.shape.half)
        if not self.shape.leak:
            logits = logits.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        mixed = (torch.softmax(logits, -1) @ v).transpose(1, 2).reshape(b, t, WIDTH)
        attention = self.out(mixed)
        x = x + F.dropout(attention, self.shape.dropout, self.training)
        mlp = self.down(F.gelu(self.up(self.two(x))))
        seen = {"attention": attention, "mlp": mlp, "logits": logits.masked_fill(logits == float("-inf"), 0.0)}
        self.seen = {name: float(part.detach().abs().max()) for name, part in seen.items()}
        return x + F.dropout(mlp, self.shape.dropout, self.training)


def rounded(x: Tensor, half: str) -> Tensor:
    """`x` as the 16-bit format would hold it, gradient passed through: overflow becomes an infinity in fp16."""
    if not half:
        return x
    small = x.half() if half == "fp16" else x.bfloat16()
    return x + (small.float() - x).detach() if torch.isfinite(small).all() else small.float() * x / x
