// Stands in for libculprit.so: its constructor crashes.
__attribute__((constructor)) static void crash(void) { *(volatile int*)0x10 = 1; }
