// Code placement and visibility. The hooks run between long runs of driver code, which evict ours from the processor's
// caches: so the code of the hot path is kept together, apart from rarely used code.
#pragma once

#define CULPRIT_HOT __attribute__((hot))
#define CULPRIT_COLD __attribute__((cold, noinline))

// For the declaration of a variable that every call reads: marks it as local to this library, so that no GOT load is
// needed for its address; and for a function with a C name that only our assembly or libunwind calls.
// (-fvisibility=hidden covers definitions only.)
#define CULPRIT_OWN __attribute__((visibility("hidden")))

// A function of the library's interface: exported (exports.map), with its C name.
#define CULPRIT_EXPORT extern "C" __attribute__((visibility("default")))

// A variable, zero at first, that loading the library writes or reads in every process. All of them lie in .data, on
// the page that the loader writes in any case: the first touch of another page costs a process 1 to 2 us.
#define CULPRIT_AT_LOAD __attribute__((section(".data.at_load")))

// A function that every process calls, at load or at its end: all of them lie together, for the same reason. (GCC
// ignores the attribute for templates, thus for the lambdas that they are made of.)
#define CULPRIT_LOADING __attribute__((section(".text.startup")))

// Conditions that are nearly always true, or nearly never, with an explicit probability: with __builtin_expect()'s 90%,
// the code after ten such conditions counts as likely as not, and the compiler mixes it with cold code.
#define CULPRIT_LIKELY(condition) __builtin_expect_with_probability(!!(condition), 1, 1.0)
#define CULPRIT_UNLIKELY(condition) __builtin_expect_with_probability(!!(condition), 0, 1.0)
