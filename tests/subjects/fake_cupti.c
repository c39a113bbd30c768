// A libcupti that another tool already uses: subscribing fails with that error.
enum { kMultipleSubscribers = 39 };

int cuptiSubscribe(void** subscriber, void* callback, void* user);
int cuptiUnsubscribe(void* subscriber);
int cuptiEnableCallback(unsigned on, void* subscriber, unsigned domain, unsigned id);
int cuptiGetCallbackName(unsigned domain, unsigned id, const char** name);
int cuptiFinalize(void);

int cuptiSubscribe(void** subscriber, void* callback, void* user) {
  (void)subscriber;
  (void)callback;
  (void)user;
  return kMultipleSubscribers;
}
int cuptiUnsubscribe(void* subscriber) {
  (void)subscriber;
  return 0;
}
int cuptiEnableCallback(unsigned on, void* subscriber, unsigned domain, unsigned id) {
  (void)on;
  (void)subscriber;
  (void)domain;
  (void)id;
  return 0;
}
int cuptiGetCallbackName(unsigned domain, unsigned id, const char** name) {
  (void)domain;
  (void)id;
  *name = "";
  return 1;
}
int cuptiFinalize(void) { return 0; }
