"""Kernels of the CPU as PTX, by LLVM's own code generator for NVIDIA's processors, which comes with llvmlite."""
