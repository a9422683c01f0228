"""Atomic access to int64 words of an array, in nopython code.

numba offers no fences; these intrinsics emit LLVM's own. Word `i` of a C-contiguous int64 array is read or written as
one 8-byte access with the ordering in the function's name. Orderings are C11's: `acquire` keeps later accesses behind
the load, `release` keeps earlier accesses before the store, `relaxed` only promises that the word is never torn.
Right on ARM, where plain accesses are reordered freely, as well as on x86, where most of these cost nothing.
"""

from typing import Any

from numba import types
from numba.extending import intrinsic


def _word(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _is_words(array: Any) -> bool:
    return isinstance(array, types.Array) and array.dtype == types.int64 and array.ndim == 1 and array.layout == "C"


def _loader(ordering: str) -> Any:
    def load(typing_context: Any, array: Any, index: Any) -> Any:
        if not _is_words(array):
            return None

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load_atomic(_word(context, builder, signature.args[0], args[0], args[1]), ordering, 8)

        return types.int64(array, types.intp), codegen

    return load


def _storer(ordering: str) -> Any:
    def store(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
        if not _is_words(array):
            return None

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store_atomic(args[2], _word(context, builder, signature.args[0], args[0], args[1]), ordering, 8)
            return context.get_dummy_value()

        return types.void(array, types.intp, types.int64), codegen

    return store


def _fencer(ordering: str) -> Any:
    def fence(typing_context: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.fence(ordering)
            return context.get_dummy_value()

        return types.void(), codegen

    return fence


load_acquire = intrinsic(_loader("acquire"))
load_relaxed = intrinsic(_loader("monotonic"))
store_release = intrinsic(_storer("release"))
store_relaxed = intrinsic(_storer("monotonic"))
fence_acquire = intrinsic(_fencer("acquire"))
fence_release = intrinsic(_fencer("release"))
