"""The accesses the ring is built of are the atomic ones they are named after, in the code the compiler is given."""

import re

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from sync.compile import atomics
from sync.compile.atomics import fence_acquire, fence_release, load_acquire, load_relaxed, store_relaxed, store_release

FORMS = {
    "load_acquire": r"load atomic i64, .* acquire, align 8",
    "load_relaxed": r"load atomic i64, .* monotonic, align 8",
    "store_release": r"store atomic i64 .* release, align 8",
    "store_relaxed": r"store atomic i64 .* monotonic, align 8",
    "fence_acquire": r"fence acquire",
    "fence_release": r"fence release",
}


def code_of(name: str) -> str:
    """LLVM's text of a function that makes one such access."""
    access = getattr(atomics, name)
    if name.startswith("fence"):
        made = numba.njit("void()")(lambda: access() or None)
    elif name.startswith("load"):
        made = numba.njit("int64(int64[::1])")(lambda words: access(words, 1))
    else:
        made = numba.njit("void(int64[::1])")(lambda words: access(words, 1, 7))
    return "\n".join(made.inspect_llvm().values())


@pytest.mark.parametrize("name", FORMS)
def test_an_access_is_compiled_to_the_ordering_in_its_name(name: str) -> None:
    code = code_of(name)
    assert re.search(FORMS[name], code)
    if not name.startswith("fence"):  # numba's own reference counting has fences of both kinds
        (other,) = (form for key, form in FORMS.items() if key[:4] == name[:4] and key != name)
        assert not re.search(other, code)


def test_an_access_hits_its_own_word() -> None:
    @numba.njit
    def shuffle(words):
        store_relaxed(words, 1, load_acquire(words, 0) + 1)
        fence_release()
        fence_acquire()
        store_release(words, 2, load_relaxed(words, 1) + 1)

    words = np.array([-(2**63), 0, 0, 99])
    shuffle(words)
    assert words.tolist() == [-(2**63), -(2**63) + 1, -(2**63) + 2, 99]


@pytest.mark.parametrize(
    "wrong", [np.zeros(4, np.int32), np.zeros(4), np.zeros((2, 2), np.int64), np.zeros(8, np.int64)[::2]],
    ids=["int32", "float", "two dimensions", "with gaps"],
)  # fmt: skip
def test_an_array_whose_words_are_not_int64_in_a_row_is_refused(wrong: np.ndarray) -> None:
    @numba.njit
    def peek(words):
        return load_acquire(words, 0)

    with pytest.raises(TypingError):
        peek(wrong)
