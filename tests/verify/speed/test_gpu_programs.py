"""The benchmark of GPU programs: the number of registers that was asked for is the one a kernel gets."""

import pytest

from verify.speed.gpu_programs import limited, with_registers

PROGRAM = ".visible .entry step()\n.maxnreg 255\n{\n\tret;\n}\n"


def test_a_program_has_the_registers_it_is_asked_to_have(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "single_track").mkdir()
    (tmp_path / "single_track" / "program.ptx").write_text(PROGRAM)
    made = list(limited(tmp_path, [168, 64]))
    assert [path.read_text() for path in made] == [PROGRAM.replace("255", n) for n in ("168", "64")]
    assert len({path.with_suffix(".cubin") for path in made}) == 2


def test_a_program_that_does_not_say_how_many_it_has_is_refused() -> None:
    with pytest.raises(ValueError, match="maxnreg"):
        with_registers(PROGRAM.replace(".maxnreg 255\n", ""), 64)
