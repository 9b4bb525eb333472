#pragma once

/// A function with this is compiled for several processors; the loader chooses. All give the same
/// bits if products and sums stay apart (-ffp-contract=off on the file) and sums have an order of
/// their own. What it calls in loops has to be inlined into it. Sanitizers cannot run before main,
/// where the loader chooses.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FORERUN_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define FORERUN_VECTOR_CLONES
#endif
