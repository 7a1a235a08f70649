"""The ledger that outlives its process."""

from pathlib import Path

from rowmill.demo.ledger import LedgerReader, LedgerWriter


def test_what_is_written_is_read_at_once(tmp_path: Path) -> None:
    reader = LedgerReader(tmp_path / "ledger")
    reader.read()
    writer = LedgerWriter(tmp_path / "ledger")
    writer.up(7)
    writer.start(1, 1)
    writer.start(2, 3)
    writer.end(1, 1)
    reader.read()
    writer.rescued(5, 1)
    reader.read()

    assert reader.worker == 7
    assert reader.starts == [(1, 1), (2, 3)]
    assert reader.inside == {2: 3}
    assert (reader.rescued, reader.buried) == (5, 1)


def test_a_row_dropped_without_a_result_is_no_refused_settlement(tmp_path: Path) -> None:
    writer, reader = LedgerWriter(tmp_path / "ledger"), LedgerReader(tmp_path / "ledger")
    writer.lost("4", "done")
    writer.lost("5", "release")
    reader.read()

    assert reader.refused == [4]


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    path.write_bytes(b"start 1 1\nsta")
    reader = LedgerReader(path)
    reader.read()
    assert reader.starts == [(1, 1)]

    with path.open("ab") as file:
        file.write(b"rt 12 2\n")
    reader.read()
    assert reader.starts == [(1, 1), (12, 2)]
