// A library that calls back: its frame stands in the middle of the stack, and it may be loaded at another address next
// time.
extern "C" __attribute__((visibility("default"))) void call_back(void (*function)()) {
  function();
  asm volatile("" ::: "memory");
}
