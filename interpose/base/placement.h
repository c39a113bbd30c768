// Where code lies. The hooks run between stretches of the driver's code, which push ours out of the processor's caches:
// what every call runs is kept together and free of what hardly any call runs.
#pragma once

#define CULPRIT_HOT __attribute__((hot))
#define CULPRIT_COLD __attribute__((cold, noinline))

// For the declaration of a variable that every call reads: it is this library's own, and its address needs no
// instruction to be found. (-fvisibility=hidden covers definitions only.)
#define CULPRIT_OWN __attribute__((visibility("hidden")))

// What is nearly always so, or nearly never. With the probability: at __builtin_expect()'s own nine of ten, ten of them
// in a row make what follows them as likely as not, and the compiler puts it in the middle of the rest.
#define CULPRIT_LIKELY(condition) __builtin_expect_with_probability(!!(condition), 1, 1.0)
#define CULPRIT_UNLIKELY(condition) __builtin_expect_with_probability(!!(condition), 0, 1.0)
