"""What the context of a case says in the book's words."""

from __future__ import annotations

from typing import Any

import pytest

from playbook.knowledge.loader import Book
from playbook.workflow.cases import context_facts


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({"nodes": 1}, {"nodes": "one"}),
        ({"nodes": "16"}, {"nodes": "several"}),
        ({"nodes": "many"}, {}),
        ({"gpus": 1}, {"parallelism": "single"}),
        ({"gpus": 8}, {}),
        ({"framework": "PyTorch FSDP"}, {"parallelism": "sharded", "software": "sharding-engine"}),
        (
            {"framework": "PyTorch FSDP", "parallelism": "pipeline"},
            {"parallelism": "pipeline", "software": "sharding-engine"},
        ),
        ({"framework": "PyTorch", "task": "data generation"}, {"software": "plain"}),
        ({"framework": "PyTorch 2.10 with torch.compile"}, {"software": "compiler"}),
        ({"framework": "transformers with PEFT", "model": "a detector"}, {"software": "trainer", "task": "detection"}),
        ({"framework": "something new"}, {}),
        (
            {"framework": "a MoE on Megatron", "task": "pretraining"},
            {"moe-in-model": "yes", "task": "pretraining", "software": "sharding-engine"},
        ),
        ({"model": "ResNet with SyncBatchNorm"}, {"batchnorm-in-model": "yes"}),
        ({"model": "dense"}, {}),
        ({"task": "named entity recognition"}, {"task": "fine-tuning"}),
        ({"task": "speech recognition"}, {"task": "speech"}),
        ({"task": "wake-word detection"}, {"task": "speech"}),
        ({"task": "3D detection"}, {"task": "detection"}),
        ({"task": "image-generation"}, {"task": "generative"}),
        ({"task": "robot policy training"}, {"task": "other"}),
    ],
)
def test_context_facts(real_book: Book, context: dict[str, Any], expected: dict[str, str]) -> None:
    assert context_facts(context, real_book) == expected


def test_one_machine_rules_the_network_between_machines_out(real_book: Book) -> None:
    from playbook.engine.belief import posterior
    from playbook.engine.tables import compile_book
    from playbook.findings import Evidence

    tables = compile_book(real_book)
    slow = [Evidence("loss-shape", "throughput-drop", "case"), Evidence("parallelism", "data", "case")]
    rdma = tables.index("rdma-misconfigured")
    alone = posterior(tables, [*slow, Evidence("nodes", "one", "case")])
    assert posterior(tables, slow).marginal[rdma] > 0.05 and alone.marginal[rdma] < 1e-6
