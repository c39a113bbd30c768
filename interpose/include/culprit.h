/* culprit.h: the interface of a program to culprit, while the program runs under culprit. C and C++, header-only.
 *
 * Nothing has to be linked: the header looks the functions up in the process (dlsym), once. Where libculprit.so is not
 * loaded each function does nothing and costs one comparison; so does a function that is newer than the loaded library,
 * while the others work. Each function may be called from any thread at any time,
 * also before the first CUDA call. None starts a dump, throws, or changes errno. With a glibc older than 2.34 link with
 * -ldl.
 *
 *     culprit_mark_push("epoch 3");      each allocation gets the innermost open mark of its thread:
 *     ...                                  culprit report --group-by mark
 *     culprit_mark_pop();
 *     culprit_mark("warm-up done");      a moment: culprit report --since-mark "warm-up done"
 *     culprit_mark_with_bytes("sleep");  and what is live at that moment, by stack:
 *                                          culprit diff A.dump --from "sleep" --to "wake"
 *
 *     culprit_region_add(p, 4096, "weights");   a part of one big allocation, as an allocation of its own:
 *     culprit_region_end(p);                      a leak inside the big one when it is never ended
 *
 * NVTX ranges and the regions of NVTX's memory extension need no call: culprit records those of the program.
 */
#ifndef CULPRIT_H
#define CULPRIT_H

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

/* Grows when functions are added; existing functions do not change. culprit_version() is that of the loaded library.
 * 3: culprit_region_*(), culprit_mark_with_bytes(). */
#define CULPRIT_API_VERSION 3

/* A mark whose name begins with this prefix is a test: the junit report has a case for each. */
#define CULPRIT_TEST_PREFIX "test: "

#ifdef __cplusplus
#define CULPRIT_CAST(type, value) reinterpret_cast<type>(value)
#define CULPRIT_NULL nullptr
extern "C" {
#else
#define CULPRIT_CAST(type, value) (__extension__(type)(value))
#define CULPRIT_NULL NULL
#endif

struct culprit_functions {
  int looked_up;
  int version; /* 0: libculprit.so is not loaded, or older than 0.2.0. Newer functions than its are null */
  void (*start)(void);
  void (*stop)(void);
  int (*snapshot)(const char* path);
  void (*mark_push)(const char* name);
  void (*mark_pop)(void);
  void (*mark)(const char* name);
  uint64_t (*now)(void);
  uint64_t (*live_bytes)(uint64_t since, uint64_t* count);
  uint64_t (*not_recorded)(void);
  void (*region_add)(const void* address, size_t bytes, const char* name);
  void (*region_resize)(const void* address, size_t bytes);
  void (*region_end)(const void* address);
  int (*mark_with_bytes)(const char* name);
};

/* Not for direct use. Threads that make the first call at the same time find the same functions. */
static inline const struct culprit_functions* culprit_find(void) {
  static struct culprit_functions found;
  int saved_errno;
  if (__atomic_load_n(&found.looked_up, __ATOMIC_ACQUIRE) != 0) return &found;
  saved_errno = errno;
  {
    int (*version)(void) = CULPRIT_CAST(int (*)(void), dlsym(RTLD_DEFAULT, "culprit_api_version"));
    if (version != CULPRIT_NULL && version() >= 2) {
      found.start = CULPRIT_CAST(void (*)(void), dlsym(RTLD_DEFAULT, "culprit_api_start"));
      found.stop = CULPRIT_CAST(void (*)(void), dlsym(RTLD_DEFAULT, "culprit_api_stop"));
      found.snapshot = CULPRIT_CAST(int (*)(const char*), dlsym(RTLD_DEFAULT, "culprit_api_snapshot"));
      found.mark_push = CULPRIT_CAST(void (*)(const char*), dlsym(RTLD_DEFAULT, "culprit_api_mark_push"));
      found.mark_pop = CULPRIT_CAST(void (*)(void), dlsym(RTLD_DEFAULT, "culprit_api_mark_pop"));
      found.mark = CULPRIT_CAST(void (*)(const char*), dlsym(RTLD_DEFAULT, "culprit_api_mark"));
      found.now = CULPRIT_CAST(uint64_t(*)(void), dlsym(RTLD_DEFAULT, "culprit_api_now"));
      found.live_bytes = CULPRIT_CAST(uint64_t(*)(uint64_t, uint64_t*), dlsym(RTLD_DEFAULT, "culprit_api_live_bytes"));
      found.not_recorded = CULPRIT_CAST(uint64_t(*)(void), dlsym(RTLD_DEFAULT, "culprit_api_not_recorded"));
      found.region_add =
          CULPRIT_CAST(void (*)(const void*, size_t, const char*), dlsym(RTLD_DEFAULT, "culprit_api_region_add"));
      found.region_resize =
          CULPRIT_CAST(void (*)(const void*, size_t), dlsym(RTLD_DEFAULT, "culprit_api_region_resize"));
      found.region_end = CULPRIT_CAST(void (*)(const void*), dlsym(RTLD_DEFAULT, "culprit_api_region_end"));
      found.mark_with_bytes = CULPRIT_CAST(int (*)(const char*), dlsym(RTLD_DEFAULT, "culprit_api_mark_with_bytes"));
      found.version = version();
    }
  }
  __atomic_store_n(&found.looked_up, 1, __ATOMIC_RELEASE);
  errno = saved_errno;
  return &found;
}

/* The version of the loaded library's functions; 0: no library is loaded. */
static inline int culprit_version(void) { return culprit_find()->version; }

/* Switch recording on and off. While recording is off only frees of recorded allocations are recorded. */
static inline void culprit_start(void) {
  if (culprit_version() != 0) culprit_find()->start();
}
static inline void culprit_stop(void) {
  if (culprit_version() != 0) culprit_find()->stop();
}

/* Writes a copy of the dump to `path`, for culprit report. Replaces an older dump, but no other file. In a Python
 * program the live tensors of that moment are in `path` + ".python.json" as soon as the main thread has run the next
 * line of Python. Returns 0 or an errno: EEXIST: `path` is another file; ENODATA: nothing was recorded yet; ENOSYS:
 * culprit is not loaded. */
static inline int culprit_snapshot(const char* path) {
  return culprit_version() != 0 ? culprit_find()->snapshot(path) : ENOSYS;
}

/* Open a mark in the calling thread, and close its innermost one. Names are copied, and cut to 111 bytes. */
static inline void culprit_mark_push(const char* name) {
  if (culprit_version() != 0) culprit_find()->mark_push(name);
}
static inline void culprit_mark_pop(void) {
  if (culprit_version() != 0) culprit_find()->mark_pop();
}

/* Names the present moment. */
static inline void culprit_mark(const char* name) {
  if (culprit_version() != 0) culprit_find()->mark(name);
}

/* Names the present moment, and keeps what is live at it: bytes and allocations by stack and kind, for culprit diff.
 * A dump keeps these sums of the newest 16 such moments. One moment may have 12,288 stacks; the others are one sum.
 * Other threads go on: what they allocate after the moment is left out, and what they free during the call may be
 * missing, as if it had been freed just before. Before the first CUDA call the sums are 0. The call visits each live
 * allocation, without a lock that allocations need, on a stack of culprit's and without malloc: for a few moments of a
 * program, not for inner loops. Returns 0 or an errno: EINVAL: no name; EAGAIN: called by a signal handler that
 * interrupted culprit; ENOMEM: no memory, or no room in the dump; ENODATA: no dump could be made; ENOSYS: culprit is
 * not loaded, or has no such function. With EAGAIN and ENOMEM the moment is named as by culprit_mark(), and with
 * ENOSYS it is when that is there. Thread-safe; may be called in a signal handler. */
static inline int culprit_mark_with_bytes(const char* name) {
  if (culprit_version() != 0 && culprit_find()->mark_with_bytes != CULPRIT_NULL)
    return culprit_find()->mark_with_bytes(name);
  culprit_mark(name);
  return ENOSYS;
}

/* Nanoseconds since recording began; 0: recording has not begun. */
static inline uint64_t culprit_now(void) { return culprit_version() != 0 ? culprit_find()->now() : 0; }

/* Bytes of GPU and pinned memory that any thread allocated and that are not freed. Visits all live allocations: for
 * tests and logs, not for inner loops. */
static inline uint64_t culprit_live_bytes(void) {
  return culprit_version() != 0 ? culprit_find()->live_bytes(0, CULPRIT_NULL) : 0;
}

/* Like culprit_live_bytes(), for allocations made at the time `since` (see culprit_now) or later. `count`, which may be
 * null, receives the number of allocations. */
static inline uint64_t culprit_live_bytes_since(uint64_t since, uint64_t* count) {
  if (count != CULPRIT_NULL) *count = 0;
  return culprit_version() != 0 ? culprit_find()->live_bytes(since, count) : 0;
}

/* For programs that cut buffers out of one allocation. culprit_region_add() announces the buffer at `address`, under a
 * name that may be null; names are copied, and cut to 111 bytes. It is recorded like an allocation, and its bytes stay
 * with the allocation that it lies in. A second announcement of an address replaces the first. An address that was not
 * announced is ignored. Before the first CUDA call nothing is recorded. */
static inline void culprit_region_add(const void* address, size_t bytes, const char* name) {
  if (culprit_version() != 0 && culprit_find()->region_add != CULPRIT_NULL)
    culprit_find()->region_add(address, bytes, name);
}
static inline void culprit_region_resize(const void* address, size_t bytes) {
  if (culprit_version() != 0 && culprit_find()->region_resize != CULPRIT_NULL)
    culprit_find()->region_resize(address, bytes);
}
static inline void culprit_region_end(const void* address) {
  if (culprit_version() != 0 && culprit_find()->region_end != CULPRIT_NULL) culprit_find()->region_end(address);
}

/* How many events could not be recorded so far (a full disk, ...); UINT64_MAX: no dump could be made. When the number
 * grows, the result of culprit_live_bytes() may be too small. */
static inline uint64_t culprit_not_recorded(void) {
  return culprit_version() != 0 ? culprit_find()->not_recorded() : 0;
}

#ifdef __cplusplus
}

namespace culprit {

/* A mark in the thread that constructs the object, open until the object is destroyed in that thread. */
class Mark {
 public:
  explicit Mark(const char* name) { culprit_mark_push(name); }
  ~Mark() { culprit_mark_pop(); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
};

}  // namespace culprit
#endif

#undef CULPRIT_CAST
#undef CULPRIT_NULL

#endif /* CULPRIT_H */
