// A library that calls back: its frame is in the middle of the stack, and its address may change with each loading.
extern "C" __attribute__((visibility("default"))) void call_back(void (*function)()) {
  function();
  asm volatile("" ::: "memory");
}
