// Where code lies. The hooks run between stretches of the driver's code, which push ours out of the processor's caches:
// what every call runs is kept together and free of what hardly any call runs.
#pragma once

#define CULPRIT_HOT __attribute__((hot))
#define CULPRIT_COLD __attribute__((cold, noinline))

// For the declaration of a variable that every call reads: it is this library's own, and its address needs no
// instruction to be found. (-fvisibility=hidden covers definitions only.)
#define CULPRIT_OWN __attribute__((visibility("hidden")))
