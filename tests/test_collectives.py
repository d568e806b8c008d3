"""What a hung job's ranks say of the collective that they wait in, in the words of real logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from playbook.faces.words import words
from playbook.knowledge.loader import Book
from playbook.workflow.book import open_book
from playbook.workflow.ingest import ingest
from playbook.workflow.session import Session

ROWS = "".join(f"step {n} loss {3 - n / 100:.3f} lr 1e-4\n" for n in range(1, 41))


def caught(rank: int, number: int, operation: str = "ALLREDUCE", size: int = 9801523) -> str:
    return (
        f"[rank{rank}]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={size}, NumelOut={size}, "
        "Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    )


def group(rank: int, number: int, enqueued: int, name: str = "PG ID 0 PG GUID 0(default_pg)") -> str:
    return (
        f"[rank{rank}]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [{name} Rank {rank}] Exception (either an "
        f"error or timeout) detected by watchdog at work: {number}, last enqueued NCCL work: {enqueued}, "
        f"last completed NCCL work: {number - 1}.\n"
    )


def signalled(rank: int, enqueued: int) -> str:
    return (
        f"[rank{rank}]:[E901 05:20:03.118859045 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Received a dump signal due to a collective timeout from  rank 6 and we will try our best to dump the debug "
        f"info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {enqueued}.This is most likely caused "
        "by incorrect usages of collectives, e.g., wrong sizes used across ranks\n"
    )


def seen(path: Path, text: str, book: Book) -> dict[str, str]:
    path.write_text(ROWS + text)
    return {item.signal: item.state for item in ingest([str(path)], book).evidence}


def both(ranks: dict[int, int], name: str = "PG ID 0 PG GUID 0(default_pg)") -> str:
    return "".join(caught(rank, number) + group(rank, number, number + 2, name) for rank, number in ranks.items())


WORLD = "world_size: 4\n"

CASES: list[tuple[str, str, str | None, str | None]] = [
    ("a bare line", caught(0, 8811), None, None),
    (
        "all that speak are in one place, and nobody knows how many there are",
        both(dict.fromkeys(range(4), 808)),
        None,
        None,
    ),
    ("one is behind in the same group", both({0: 808, 1: 808, 2: 807, 3: 808}), "yes", "one"),
    ("half are behind: neither half is the odd one", both({0: 808, 1: 808, 2: 807, 3: 807}), "yes", None),
    ("one has not enqueued it", both({0: 808, 1: 808, 2: 808}) + signalled(3, 807), "yes", "one"),
    ("it was told, and has enqueued it as well", both({0: 808, 1: 808, 2: 808}) + signalled(3, 808), None, None),
    ("other sizes", caught(0, 808) + caught(1, 808) + caught(2, 808, size=77), "yes", "one"),
    ("other operations", caught(0, 808) + caught(1, 808) + caught(2, 808, "BROADCAST"), "yes", "one"),
    ("sizes that may differ", caught(0, 8, "ALLTOALL_BASE") + caught(1, 8, "ALLTOALL_BASE", 5), None, None),
    ("two groups of one rank each", both({0: 808}, "PG 1") + both({1: 99}, "PG 2"), None, None),
    ("far apart and no group named", caught(0, 96120) + caught(7, 64088), None, None),
    (
        "near and no group named",
        caught(0, 98231) + caught(1, 98231) + caught(5, 98230, "_ALLGATHER_BASE", 1024),
        "yes",
        "one",
    ),
    (
        "near, no group named, and several groups there",
        "tensor_model_parallel_size ....... 4\n"
        + caught(0, 98231)
        + caught(1, 98231)
        + caught(5, 98230, "_ALLGATHER_BASE"),
        None,
        None,
    ),
    (
        "one group of several",
        both({0: 55, 1: 54, 2: 55}, "PG ID 2 PG GUID 9(TENSOR_MODEL_PARALLEL_GROUP)"),
        "yes",
        "one",
    ),
    (
        "a report of the desynchronisation",
        "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:\n"
        "\t     [1] finished collective #1155873, but didn't join collective #1155874 (count from 1)\n",
        "yes",
        "one",
    ),
    ("a monitored barrier", "RuntimeError: Ranks 1, 2 failed to pass monitoredBarrier in 30000 ms\n", "yes", "some"),
    (
        "the flight recorder",
        "Not all ranks joining collective, sequence number: 4\ncollective: nccl:all_reduce\nmissing ranks: {1}\n",
        "yes",
        "one",
    ),
]


@pytest.mark.parametrize(("_what", "text", "mismatch", "ranks"), CASES, ids=[case[0] for case in CASES])
def test_ranks_are_laid_side_by_side(
    tmp_path: Path, real_book: Book, _what: str, text: str, mismatch: str | None, ranks: str | None
) -> None:
    found = seen(tmp_path / "train.log", text, real_book)
    assert (found.get("collective-mismatch"), found.get("ranks-affected")) == (mismatch, ranks)
    assert found["loss-shape"] == "hang-or-crash"


def test_the_hang_of_an_earlier_start_is_another_one(tmp_path: Path, real_book: Book) -> None:
    text = caught(0, 808) + caught(1, 808) + "step 41 loss 2.5 lr 1e-4\nstep 42 loss 2.4 lr 1e-4\n" + caught(2, 800)
    assert "collective-mismatch" not in seen(tmp_path / "train.log", text, real_book)


def world(path: Path) -> None:
    path.with_name("config.yaml").write_text("world_size: 4\nlr: 0.0001\n")


@pytest.mark.parametrize(
    ("ranks", "further", "mismatch", "affected"),
    [
        ((0, 1, 2, 3), "", "no", None),
        ((0, 1, 3), "", "yes", "one"),
        ((0, 1, 3), "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n", None, "one"),
        ((0, 1), "", None, None),  # the log of one node
    ],
)
def test_who_never_speaks_is_known_where_all_are(
    tmp_path: Path, real_book: Book, ranks: tuple[int, ...], further: str, mismatch: str | None, affected: str | None
) -> None:
    path = tmp_path / "train.log"
    world(path)
    path.write_text(ROWS + further + both(dict.fromkeys(ranks, 808)))
    found = {item.signal: item.state for item in ingest([str(tmp_path)], real_book).evidence}
    assert (found.get("collective-mismatch"), found.get("ranks-affected")) == (mismatch, affected)


def test_a_bare_timeout_decides_nothing_and_a_comparison_of_ranks_may(tmp_path: Path) -> None:
    library = open_book()
    path = tmp_path / "train.log"
    for text, decided in ((caught(0, 8811), False), (both({0: 808, 1: 808, 2: 807, 3: 808}), True)):
        path.write_text(ROWS + text)
        session = Session(library.book, library.tables)
        session.observe(ingest([str(path)], library.book).evidence)
        verdict = session.diagnosis()
        assert verdict.decided is decided, [(cause.id, cause.probability) for cause in verdict.causes[:3]]
        assert verdict.causes[0].class_ == "collective_desync"


def test_a_place_is_told_only_of_the_ranks_that_are_there(tmp_path: Path, real_book: Book) -> None:
    path = tmp_path / "train.log"
    for text, told in (
        (both({0: 808, 1: 805, 2: 808, 3: 806, 4: 808}), "rank 1: work 805 (ALLREDUCE of 9801523 elements); others"),
        (
            both({0: 808, 1: 805, 2: 808, 3: 805, 4: 808}),
            "ranks 1, 3: work 805 (ALLREDUCE of 9801523 elements); others",
        ),
        (
            "".join(caught(rank, 808, size=size) for rank, size in enumerate((9, 7, 9, 5, 9))),
            "at the same number rank 1: work 808 (ALLREDUCE of 7 elements); others: work 808",
        ),
    ):
        path.write_text(ROWS + text)
        (found,) = [e for e in ingest([str(path)], real_book).evidence if e.signal == "collective-mismatch"]
        assert found.because.startswith(told)
        zh = words("zh").say(found.because)
        assert "others" not in zh and "at the same" not in zh, zh
